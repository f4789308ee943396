extern "C" int sc_main(int argc, char** argv);

/// SystemC's library wants the program's entry point; kodama has its own main(). Alone in its file, so that
/// libmnc2.so (host/) needn't have it.
extern "C" int sc_main(int /*argc*/, char** /*argv*/) {
  return 1;
}
