#include "scheduler/machine/passes.h"

#include "passes/registry.h"
#include "scheduler/machine/builtin_passes.h"

namespace kodama::scheduler {
namespace {

passes::Registry<HomeAssigner>& home_assigner_registry() {
  static passes::Registry<HomeAssigner> all("home assigner", {bank_coloring_pass()});
  return all;
}
passes::Registry<Coalescer>& coalescer_registry() {
  static passes::Registry<Coalescer> all("coalescer",
                                         {copy_coalescing_pass(), idle_pass<Coalescer>("keep-copies")});
  return all;
}
passes::Registry<Spiller>& spiller_registry() {
  static passes::Registry<Spiller> all("spiller", {furthest_use_pass(), idle_pass<Spiller>("none")});
  return all;
}
passes::Registry<Allocator>& allocator_registry() {
  static passes::Registry<Allocator> all("allocator", {linear_scan_pass(), first_fit_pass(), packed_pass()});
  return all;
}

}  // namespace

const std::vector<HomeAssigner>& home_assigners() {
  return home_assigner_registry().all();
}
const std::vector<Coalescer>& coalescers() {
  return coalescer_registry().all();
}
const std::vector<Spiller>& spillers() {
  return spiller_registry().all();
}
const std::vector<Allocator>& allocators() {
  return allocator_registry().all();
}
const HomeAssigner& find_home_assigner(const std::string& name) {
  return home_assigner_registry().find(name);
}
const Coalescer& find_coalescer(const std::string& name) {
  return coalescer_registry().find(name);
}
const Spiller& find_spiller(const std::string& name) {
  return spiller_registry().find(name);
}
const Allocator& find_allocator(const std::string& name) {
  return allocator_registry().find(name);
}
void register_pass(HomeAssigner pass) {
  home_assigner_registry().add(std::move(pass));
}
void register_pass(Coalescer pass) {
  coalescer_registry().add(std::move(pass));
}
void register_pass(Spiller pass) {
  spiller_registry().add(std::move(pass));
}
void register_pass(Allocator pass) {
  allocator_registry().add(std::move(pass));
}

}  // namespace kodama::scheduler
