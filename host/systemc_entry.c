/* libmnc2-systemc.so: what SystemC's library refers to, and nobody calls. libmnc2.so needs this library, so
 * that host programs neither have the function nor see it in libmnc2.so. */
int sc_main(int argc, char** argv);
int sc_main(int argc, char** argv) {
  (void)argc;
  (void)argv;
  return 1;
}
