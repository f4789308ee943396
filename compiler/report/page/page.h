#pragma once

#include <string_view>

/// The page of html_report.h without its data, put together by page/assemble.cmake when Kodama is built.
namespace kodama::compiler {

extern const std::string_view kPageHead;  ///< before the JSON
extern const std::string_view kPageTail;  ///< behind it

}  // namespace kodama::compiler
