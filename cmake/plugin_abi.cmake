# -DHEADERS=FILE;... -DOUTPUT=FILE: a header with a number that differs where the headers' texts do.
set(hashes "")
foreach(header ${HEADERS})
  file(SHA256 ${header} hash)
  string(APPEND hashes ${hash})
endforeach()
string(SHA256 hash "${hashes}")
string(SUBSTRING ${hash} 0 7 number)
file(WRITE ${OUTPUT} "#pragma once

namespace kodama::passes {

/// Of the public headers' texts: a plugin that was built against others is refused.
inline constexpr int kPluginAbi = 0x${number};

}  // namespace kodama::passes
")
