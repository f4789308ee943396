# -DFILES=FILE;... -DTEMPLATE=FILE -DOUTPUT=FILE: the template with @HASH@ (of the files' texts, hexadecimal) and
# @SHORT_HASH@ (its first 7 digits) in their places.
set(hashes "")
foreach(file ${FILES})
  file(SHA256 ${file} hash)
  string(APPEND hashes ${hash})
endforeach()
string(SHA256 HASH "${hashes}")
string(SUBSTRING ${HASH} 0 7 SHORT_HASH)
configure_file(${TEMPLATE} ${OUTPUT} @ONLY)
