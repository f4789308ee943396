#include "host/totals.h"

#include <cmath>
#include <cstdlib>
#include <map>
#include <mutex>
#include <nlohmann/json.hpp>

#include "host/message.h"
#include "isa/file.h"
#include "simulator/statistics.h"

namespace kodama::host {
namespace {

struct Device {
  std::string chip;
  double clock_hz = 0;
  Totals totals;
};

/// Never destroyed: threads may use devices until the process ends.
struct Book {
  std::mutex mutex;
  std::map<int64_t, Device> devices;
  bool changed = false;
  bool at_exit = false;
};
Book& book() {
  static auto* book = new Book;
  return *book;
}

nlohmann::ordered_json to_json(const Totals& totals) {
  const simulator::RunStats& runs = totals.runs;
  return {
      {"cycles", runs.causes.total()},
      {"steps", runs.steps},
      {"nops", runs.nops},
      {"mvs", runs.mvs},
      {"kernels", totals.kernels},
      {"transfers", totals.sends + totals.receives},
      {"bytes", totals.sent_bytes + totals.received_bytes},
      {"sends", totals.sends},
      {"sent_bytes", totals.sent_bytes},
      {"receives", totals.receives},
      {"received_bytes", totals.received_bytes},
      {"cycles_by_cause", simulator::causes_json(runs.causes)},
      {"link_cycles", std::llround(totals.link_cycles)},
      {"elapsed_cycles", std::llround(totals.elapsed_cycles)},
  };
}

void write_at_exit() {
  bool changed = false;
  {
    const std::lock_guard lock(book().mutex);
    changed = book().changed;
  }
  if (changed) write_totals();
}

}  // namespace

Totals& Totals::operator+=(const Totals& other) {
  runs += other.runs;
  kernels += other.kernels;
  sends += other.sends;
  receives += other.receives;
  sent_bytes += other.sent_bytes;
  received_bytes += other.received_bytes;
  link_cycles += other.link_cycles;
  elapsed_cycles += other.elapsed_cycles;
  return *this;
}

int64_t begin_totals(const std::string& chip, double clock_hz) {
  const std::lock_guard lock(book().mutex);
  if (!book().at_exit) {
    std::atexit(write_at_exit);
    book().at_exit = true;
  }
  book().changed = true;
  const auto number = static_cast<int64_t>(book().devices.size());
  book().devices[number] = {chip, clock_hz, {}};
  return number;
}

void update_totals(int64_t device, const Totals& totals) {
  const std::lock_guard lock(book().mutex);
  book().changed = true;
  book().devices[device].totals = totals;
}

void write_totals() {
  const char* path = std::getenv("KODAMA_STATS");
  if (path == nullptr || *path == 0) return;
  const std::lock_guard lock(book().mutex);
  Totals all;
  nlohmann::ordered_json devices = nlohmann::ordered_json::array();
  for (const auto& [number, device] : book().devices) {
    all += device.totals;
    nlohmann::ordered_json one{{"chip", device.chip}, {"clock_hz", device.clock_hz}};
    one.update(to_json(device.totals));
    devices.push_back(std::move(one));
  }
  nlohmann::ordered_json json = to_json(all);
  json["devices"] = std::move(devices);
  try {
    isa::write_file_atomically(path, json.dump(2) + "\n");
    book().changed = false;
  } catch (const std::exception& error) {
    say(error.what());
  }
}

}  // namespace kodama::host
