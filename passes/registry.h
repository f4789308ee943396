#pragma once

#include <fmt/format.h>

#include <exception>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "isa/cancellation.h"
#include "isa/error.h"

/// Where passes of a kind are found by name. A kind is a struct with at least
///
///     std::string name;          // chosen by it on the command line
///     std::string description;   // a line of `kodama passes`
///     std::function<...> run;    // what it does; a kind with several functions has a Check for them
///     std::string plugin = {};   // the file it came from; empty: Kodama's own. Filled by Registry::add
///
/// and mostly `std::vector<PassOptionInfo> options` (pass_options.h). Its folder has one list of those that
/// come with Kodama, and three functions on it, which are all that users and plugins see:
///
///     Registry<Packer>& registry() {   // static inside, so that a pass can be added from static
///     initialization
///       static Registry<Packer> all("packer", {exact_packer(), first_fit_packer()});
///       return all;
///     }
///     const std::vector<Packer>& packers() { return registry().all(); }
///     const Packer& find_packer(const std::string& name) { return registry().find(name); }
///     void register_pass(Packer packer) { registry().add(std::move(packer)); }
namespace kodama::passes {

/// While one exists, passes that are added are marked as the plugin's.
class RegisteringPlugin {
 public:
  /// `replaces`: passes may have the names of others that came from plugins, which they replace. Then nobody
  /// may run passes, or have references to them.
  explicit RegisteringPlugin(std::string file, bool replaces = false);
  ~RegisteringPlugin();
  RegisteringPlugin(const RegisteringPlugin&) = delete;
  RegisteringPlugin& operator=(const RegisteringPlugin&) = delete;

  int passes() const;  ///< added so far
  /// The file of the one that exists; empty: none does.
  static const std::string& file();
  static bool replaces();
  /// UserError naming the plugin.
  [[noreturn]] static void refuse(const std::string& found, const std::string& allowed);
  static void count();
  /// Whether one has ever existed: then code of others may run, which nobody calls from several threads.
  static bool any();
};

template <typename Pass>
class Registry {
 public:
  /// What is wrong with a pass and what is allowed, besides name and function; nothing: {}.
  using Check = std::function<std::pair<std::string, std::string>(const Pass&)>;

  /// `kind` as messages call it. The first of `own` is the default.
  Registry(std::string kind, std::vector<Pass> own, Check check = {})
      : kind_(std::move(kind)), check_(std::move(check)) {
    for (Pass& pass : own) add(std::move(pass), {});
  }

  const std::vector<Pass>& all() const { return passes_; }

  /// A pass without name or function, or of a name that is taken, is an InternalError, of a plugin a
  /// UserError.
  void add(Pass pass) { add(std::move(pass), RegisteringPlugin::file()); }

  /// Empty = the first. UserError listing the names when there is none.
  const Pass& find(std::string_view name) const {
    return find(name, kind_, [](const Pass&) { return true; });
  }
  /// Of those for which `fits`, which messages call `kind`.
  template <typename Fits>
  const Pass& find(std::string_view name, std::string_view kind, const Fits& fits) const {
    std::string names;
    for (const Pass& pass : passes_) {
      if (!fits(pass)) continue;
      if (name.empty() || pass.name == name) return pass;
      names += (names.empty() ? "" : ", ") + pass.name;
    }
    throw isa::UserError(fmt::format("found {} '{}', allowed: {}", kind, name, names));
  }

 private:
  void add(Pass pass, const std::string& plugin) {
    pass.plugin = plugin;
    const bool is_own = pass.plugin.empty();
    const auto refuse = [&](const std::string& found, const std::string& allowed) {
      if (!is_own) RegisteringPlugin::refuse(found, allowed);
      isa::check_internal(false, "pass registry", "{}; {}", found, allowed);
    };
    if (pass.name.empty()) refuse(fmt::format("a {} without a name", kind_), "every pass has one");
    if constexpr (requires { pass.run == nullptr; }) {
      if (pass.run == nullptr)
        refuse(fmt::format("{} '{}' without a function", kind_, pass.name), "`run` is set");
    }
    if (check_) {
      const auto [found, allowed] = check_(pass);
      if (!found.empty()) refuse(fmt::format("{} '{}' {}", kind_, pass.name, found), allowed);
    }
    for (Pass& other : passes_) {
      if (other.name != pass.name) continue;
      if (RegisteringPlugin::replaces() && !other.plugin.empty()) {
        other = std::move(pass);
        RegisteringPlugin::count();
        return;
      }
      refuse(fmt::format("a second {} '{}' (the first is {})", kind_, pass.name,
                         other.plugin.empty() ? "Kodama's own" : "of plugin " + other.plugin),
             "a name that is not taken ('kodama passes' lists those that are), and a plugin given once");
    }
    passes_.push_back(std::move(pass));
    if (!is_own) RegisteringPlugin::count();
  }

  std::string kind_;
  Check check_;
  std::vector<Pass> passes_;
};

/// PassError: this pass of a plugin is wrong. `fault` says how.
template <typename Pass>
[[noreturn]] void blame(std::string_view kind, const Pass& pass, std::string_view fault) {
  throw isa::PassError(
      fmt::format("{} '{}' of plugin {} is at fault: {}", kind, pass.name, pass.plugin, fault));
}
/// Runs or checks a pass. Whatever a plugin's pass throws but a UserError or UnsupportedError, and whatever a
/// check of it finds, is the plugin's fault.
template <typename Pass, typename Work>
void run_blaming(std::string_view kind, const Pass& pass, const Work& work) {
  isa::stop_if_cancelled();
  if (pass.plugin.empty()) return work();
  try {
    work();
  } catch (const isa::UserError&) {
    throw;
  } catch (const isa::UnsupportedError&) {
    throw;
  } catch (const isa::PassError&) {
    throw;
  } catch (const isa::Cancelled&) {
    throw;
  } catch (const isa::InternalError& error) {  // a verifier's, or of what the pass called
    blame(kind, pass, error.what());
  } catch (const std::exception& error) {
    blame(kind, pass, fmt::format("it throws: {}", error.what()));
  } catch (...) {
    blame(kind, pass, "it throws something that is no std::exception");
  }
}

}  // namespace kodama::passes
