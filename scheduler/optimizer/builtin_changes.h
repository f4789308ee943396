#pragma once

#include "scheduler/optimizer/stream_changes.h"

/// The kinds of changes that come with Kodama, each made in its own file; change_kinds() starts with these.
namespace kodama::scheduler {

ChangeKind forward_change();  ///< forward_change.cpp
ChangeKind rename_change();   ///< rename_change.cpp
ChangeKind narrow_change();   ///< narrow_change.cpp

}  // namespace kodama::scheduler
