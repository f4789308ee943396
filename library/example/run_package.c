/* As run_package.cpp, in C. */
#include <kodama/c_runtime.h>
#include <stdio.h>
#include <stdlib.h>

static int failed(void) {
  fprintf(stderr, "%s\n", kodama_last_error());
  return 1;
}

int main(int argc, char** argv) {
  kodama_package* package;
  kodama_session* session;
  size_t i;
  if (argc != 2) {
    fprintf(stderr, "usage: %s PACKAGE\n", argv[0]);
    return 2;
  }
  if (kodama_package_load(argv[1], NULL, &package) != KODAMA_OK) return failed();
  if (kodama_session_new(package, NULL, &session) != KODAMA_OK) return failed();
  for (i = 0; i < kodama_package_input_count(package); ++i) {
    kodama_value_info info;
    void* zeros;
    if (kodama_package_input(package, i, &info) != KODAMA_OK) return failed();
    zeros = calloc(info.bytes + 1, 1);
    if (zeros == NULL) return 1;
    if (kodama_session_set_input(session, info.name, zeros, info.bytes) != KODAMA_OK) return failed();
    free(zeros);
  }
  if (kodama_session_run(session) != KODAMA_OK) return failed();
  for (i = 0; i < kodama_package_output_count(package); ++i) {
    kodama_value_info info;
    const void* elements;
    size_t bytes;
    if (kodama_package_output(package, i, &info) != KODAMA_OK) return failed();
    if (kodama_session_output(session, info.name, &elements, &bytes) != KODAMA_OK) return failed();
    printf("%s: %lu bytes\n", info.name, (unsigned long)bytes);
  }
  printf("%lld cycles, %.3g s of chip %s\n", (long long)kodama_session_cycles(session),
         kodama_session_seconds(session), kodama_package_chip(package));
  kodama_session_free(session);
  kodama_package_free(package);
  return 0;
}
