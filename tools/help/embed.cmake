cmake_minimum_required(VERSION 3.25)
# -DFOLDER=docs -DOUTPUT=pages.cpp: the Markdown pages of a folder, tutorials among them, as texts of C++, sorted by name.
file(GLOB files RELATIVE ${FOLDER} ${FOLDER}/*.md ${FOLDER}/tutorials/*.md)
list(SORT files)
set(rows "")
foreach(file ${files})
  string(REGEX REPLACE "[.]md$" "" name ${file})
  file(READ ${FOLDER}/${file} text)
  string(APPEND rows "    {\"${name}\", R\"~page~(${text})~page~\"},\n")
endforeach()
file(WRITE ${OUTPUT} "#include \"tools/help/pages.h\"\n
namespace kodama::tools {
const std::vector<Page>& pages() {
  static const std::vector<Page> all = {\n${rows}  };
  return all;
}
}  // namespace kodama::tools\n")
