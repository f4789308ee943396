#include "passes/registry.h"

namespace kodama::passes {
namespace {

std::string& plugin_now() {
  static std::string file;
  return file;
}
int passes_of_plugin = 0;
bool replaces_others = false;
bool any_plugin = false;

}  // namespace

RegisteringPlugin::RegisteringPlugin(std::string file, bool replaces) {
  plugin_now() = std::move(file);
  replaces_others = replaces;
  passes_of_plugin = 0;
  any_plugin = true;
}
RegisteringPlugin::~RegisteringPlugin() {
  plugin_now().clear();
  replaces_others = false;
}
bool RegisteringPlugin::replaces() {
  return replaces_others;
}
int RegisteringPlugin::passes() const {
  return passes_of_plugin;
}
const std::string& RegisteringPlugin::file() {
  return plugin_now();
}
void RegisteringPlugin::count() {
  ++passes_of_plugin;
}
bool RegisteringPlugin::any() {
  return any_plugin;
}
void RegisteringPlugin::refuse(const std::string& found, const std::string& allowed) {
  throw isa::UserError(fmt::format("--plugin {}: found {}; allowed: {}", plugin_now(), found, allowed));
}

}  // namespace kodama::passes
