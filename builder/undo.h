#pragma once

#include <string>

#include "builder/recorder.h"

namespace kodama::builder {

/// Takes back what was recorded since, unless it is kept.
class Recorder::Undo {
 public:
  explicit Undo(Recorder& recorder)
      : recorder_(recorder),
        values_(recorder.values_.size()),
        nodes_(recorder.nodes_.size()),
        blocks_(recorder.blocks_.size()),
        block_(recorder.block_),
        in_block_(recorder.blocks_[static_cast<size_t>(block_)].nodes.size()) {}
  ~Undo() {
    if (!keeps_) back();
  }
  Undo(const Undo&) = delete;
  Undo& operator=(const Undo&) = delete;

  void keep() { keeps_ = true; }
  /// Of a node that isn't recorded yet.
  const std::string& node_name(std::string name) { return node_name_ = std::move(name); }

  void back() {
    for (size_t id = values_; id < recorder_.values_.size(); ++id) {
      recorder_.value_names_.release(recorder_.values_[id].name);
      recorder_.by_name_.erase(recorder_.values_[id].name);
    }
    if (!node_name_.empty()) recorder_.node_names_.release(node_name_);
    for (size_t id = nodes_; id < recorder_.nodes_.size(); ++id)
      recorder_.node_names_.release(recorder_.nodes_[id].name);
    recorder_.values_.erase(recorder_.values_.begin() + static_cast<ptrdiff_t>(values_),
                            recorder_.values_.end());
    recorder_.nodes_.resize(nodes_);
    recorder_.blocks_.resize(blocks_);
    recorder_.block_ = block_;
    recorder_.blocks_[static_cast<size_t>(block_)].nodes.resize(in_block_);
  }

 private:
  Recorder& recorder_;
  const size_t values_, nodes_, blocks_;
  const int block_;
  const size_t in_block_;
  std::string node_name_;
  bool keeps_ = false;
};

}  // namespace kodama::builder
