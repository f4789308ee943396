#include "passes/registry.h"

namespace kodama::passes {
namespace {

std::string& plugin_now() {
  static std::string file;
  return file;
}
int passes_of_plugin = 0;
bool any_plugin = false;

}  // namespace

RegisteringPlugin::RegisteringPlugin(std::string file) {
  plugin_now() = std::move(file);
  passes_of_plugin = 0;
  any_plugin = true;
}
RegisteringPlugin::~RegisteringPlugin() {
  plugin_now().clear();
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
