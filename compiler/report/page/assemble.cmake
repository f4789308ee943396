cmake_minimum_required(VERSION 3.25)
# -DFOLDER=page -DD3=d3.min.js -DOUTPUT=page.cpp: puts the sources of the report's page together, as two texts of C++,
# what comes before the data and what comes behind. The policy (CSP) in it names the hashes of script and style.
set(scripts core numbers details programs overview network timeline roofline memory layouts layers comparison main)

# Digits of base 64 for a hash in hexadecimal: three of those are two of these.
set(base64 "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/")
function(policy_hash text result)
  string(SHA256 hash "${text}")
  string(APPEND hash "00")  # 64 digits are 21 times three, and one
  set(digits "")
  foreach(at RANGE 0 63 3)
    string(SUBSTRING ${hash} ${at} 3 three)
    math(EXPR high "0x${three} >> 6")
    math(EXPR low "0x${three} & 63")
    string(SUBSTRING ${base64} ${high} 1 high)
    string(SUBSTRING ${base64} ${low} 1 low)
    string(APPEND digits "${high}${low}")
  endforeach()
  string(SUBSTRING "${digits}" 0 43 digits)
  set(${result} "'sha256-${digits}='" PARENT_SCOPE)
endfunction()

file(READ ${FOLDER}/page.html page)
file(READ ${FOLDER}/page.css style)
file(READ ${D3} d3)
set(script "\"use strict\";\n(() => {\n")
foreach(part ${scripts})
  file(READ ${FOLDER}/${part}.js text)
  string(APPEND script "${text}")
endforeach()
string(APPEND script "})();\n")
policy_hash("${style}" style_hash)
policy_hash("${d3}" d3_hash)
policy_hash("${script}" script_hash)
string(REPLACE "@STYLE_HASH@" "${style_hash}" page "${page}")
string(REPLACE "@SCRIPT_HASHES@" "${d3_hash} ${script_hash}" page "${page}")
string(REPLACE "@STYLE@" "${style}" page "${page}")
string(REPLACE "@D3@" "${d3}" page "${page}")
string(REPLACE "@SCRIPT@" "${script}" page "${page}")
string(FIND "${page}" "@DATA@" at)
string(SUBSTRING "${page}" 0 ${at} head)
math(EXPR at "${at} + 6")
string(SUBSTRING "${page}" ${at} -1 tail)
file(WRITE ${OUTPUT} "#include \"compiler/report/page/page.h\"\n
namespace kodama::compiler {
extern const std::string_view kPageHead = R\"page(${head})page\";
extern const std::string_view kPageTail = R\"page(${tail})page\";
}  // namespace kodama::compiler\n")
