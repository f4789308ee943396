#include "compiler/graph/gradient/gradient_test_variants.h"

/// If, Loop and Scan.
namespace kodama::compiler::testing {

namespace {

using Variants = std::vector<GradientVariant>;

Variants if_variants() {
  // The condition depends on an integer that is drawn: both ways occur.
  const std::string condition = "one = Constant <value = int64[1] {1}> () c = Less (i, one) ";
  return {
      {"IfCaptured",
       "int64[1] i, double[3] x, double[3] z",
       condition + "y = If (c) <then_branch = t () => (double[3] a) { b = Mul (x, z) a = Tanh (b) }, "
                   "else_branch = e () => (double[3] d) { d = Exp (x) }>",
       -1,
       1,
       {"y"},
       2},
      {"IfTwoResults",
       "int64[1] i, double[2,3] x, double[3,2] z",
       condition + "y, u = If (c) <then_branch = t () => (double[2,2] a, double[2,3] b) { a = MatMul (x, z) "
                   "b = Mul (x, x) }, else_branch = e () => (double[2,2] d, double[2,3] f) "
                   "{ g = Sin (x) d = MatMul (g, z) f = Identity (x) }>",
       -1,
       1,
       {"y", "u"},
       2},
      {"IfBehindAndBefore",
       "int64[1] i, double[3] x",
       condition + "h = Exp (x) k = If (c) <then_branch = t () => (double[3] a) { a = Mul (h, h) }, "
                   "else_branch = e () => (double[3] d) { d = Neg (h) }> y = Mul (k, h)",
       -1,
       1,
       {"y"},
       2},
      {"IfInIf",
       "int64[1] i, int64[1] j, double[3] x, double[3] z",
       condition + "e = Less (j, one) y = If (c) <then_branch = t () => (double[3] a) { "
                   "a0 = If (e) <then_branch = tt () => (double[3] b) { b = Mul (x, x) }, "
                   "else_branch = te () => (double[3] d) { d = Mul (x, z) }> a = Tanh (a0) }, "
                   "else_branch = e () => (double[3] f) { f = Sin (z) }>",
       -1,
       1,
       {"y"},
       2},
  };
}

Variants loop_variants() {
  const std::string three = "n = Constant <value = int64 {3}> () t = Constant <value = bool {1}> () ";
  // Of four iterations as many run as the integer says.
  const std::string drawn =
      "n = Constant <value = int64 {4}> () t = Constant <value = bool {1}> () l = Squeeze (i) "
      "one = Constant <value = int64 {1}> () ";
  return {
      {"LoopState", "double[2,3] x, double[3,3] w, double[3] b",
       three + "y = Loop (n, t, x) <body = b (int64 k, bool c, double[2,3] h) => (bool d, double[2,3] g) "
               "{ d = Identity (c) m = MatMul (h, w) p = Add (m, b) g = Tanh (p) }>"},
      {"LoopStackedResult",
       "double[2,3] x, double[3,3] w",
       three + "y, u = Loop (n, , x) <body = b (int64 k, bool c, double[2,3] h) => "
               "(bool d, double[2,3] g, double[2,3] s) { d = Identity (c) m = MatMul (h, w) g = Tanh (m) "
               "s = Mul (g, h) }>",
       -1,
       1,
       {"y", "u"}},
      {"LoopStackedAlone", "double[2,3] x, double[2,3] w",
       three + "f, y = Loop (n, t, x) <body = b (int64 k, bool c, double[2,3] h) => "
               "(bool d, double[2,3] g, double[2,3] s) { d = Identity (c) g = Mul (h, w) s = Sin (g) }>"},
      {"LoopSlices", "double[3,2] x, double[2] h0",
       three + "y = Loop (n, t, h0) <body = b (int64 k, bool c, double[2] h) => (bool d, double[2] g) "
               "{ d = Identity (c) s = Gather (x, k) m = Mul (h, s) g = Add (m, s) }>"},
      {"LoopTwoStates",
       "double[3] x, double[3] z",
       three + "y, u = Loop (n, t, x, z) <body = b (int64 k, bool c, double[3] p, double[3] q) => "
               "(bool d, double[3] v, double[3] w) { d = Identity (c) v = Mul (p, q) w = Sin (p) }>",
       -1,
       1,
       {"y", "u"}},
      {"LoopStateOfCaptured", "double[3] x",
       three + "o = Constant <value = double[3] {1.0, 2.0, 3.0}> () "
               "y = Loop (n, t, o) <body = b (int64 k, bool c, double[3] p) => (bool d, double[3] v) "
               "{ d = Identity (c) e = Exp (x) v = Mul (p, e) }>"},
      {"LoopCounts", "double[3] x",
       three + "s0 = Constant <value = int64 {2}> () y, u = Loop (n, t, x, s0) <body = b (int64 k, bool c, "
               "double[3] p, int64 s) => (bool d, double[3] v, int64 r) { d = Identity (c) "
               "two = Constant <value = int64 {2}> () r = Mul (s, two) f = Cast <to = 11> (r) "
               "g = Cast <to = 11> (k) h = Add (f, g) e = Mul (p, p) v = Mul (e, h) }>",
       0.1, 0.6},
      {"LoopWhile",
       "int64[1] i, double[3] x, double[3] w",
       drawn + "y = Loop (n, t, x) <body = b (int64 k, bool c, double[3] h) => (bool d, double[3] g) "
               "{ k1 = Add (k, one) d = Less (k1, l) m = Mul (h, w) g = Sin (m) }>",
       -1,
       1,
       {"y"},
       4,
       1},
      {"LoopWithoutIterations",
       "double[3] x, double[3] w",
       "n = Constant <value = int64 {0}> () y = Loop (n, , x) <body = b (int64 k, bool c, double[3] h) => "
       "(bool d, double[3] g) { d = Identity (c) m = Mul (h, w) g = Sin (m) }> z = Mul (w, y)",
       -1,
       1,
       {"z"}},
      {"LoopInLoop", "double[3] x, double[3] w",
       three +
           "y = Loop (n, t, x) <body = b (int64 k, bool c, double[3] h) => (bool d, double[3] g) "
           "{ d = Identity (c) two = Constant <value = int64 {2}> () "
           "a = Loop (two, c, h) <body = inner (int64 k2, bool c2, double[3] h2) => (bool d2, double[3] g2) "
           "{ d2 = Identity (c2) e = Mul (h2, w) g2 = Tanh (e) }> g = Add (a, w) }>"},
      {"IfInLoop", "double[3] x, double[3] w",
       three + "one = Constant <value = int64 {1}> () "
               "y = Loop (n, t, x) <body = b (int64 k, bool c, double[3] h) => (bool d, double[3] g) "
               "{ d = Identity (c) f = Equal (k, one) g = If (f) <then_branch = t () => (double[3] p) "
               "{ p = Mul (h, w) }, else_branch = e () => (double[3] q) { q = Sin (h) }> }>"},
      {"LoopOfSoftmax", "double[2,3] x, double[3,3] w",
       three + "y = Loop (n, t, x) <body = b (int64 k, bool c, double[2,3] h) => (bool d, double[2,3] g) "
               "{ d = Identity (c) m = MatMul (h, w) g = Softmax (m) }>"},
  };
}

Variants scan_variants() {
  const std::string body =
      "b (double[2] h, double[2] s) => (double[2] g, double[2] o) "
      "{ m = Mul (h, w) p = Add (m, s) g = Tanh (p) o = Mul (g, s) }";
  return {
      {"Scan",
       "double[2] h0, double[4,2] x, double[2] w",
       "y, u = Scan <num_scan_inputs = 1, body = " + body + "> (h0, x)",
       -1,
       1,
       {"y", "u"}},
      {"ScanReverse",
       "double[2] h0, double[4,2] x, double[2] w",
       "y, u = Scan <num_scan_inputs = 1, scan_input_directions = [1], scan_output_directions = [1], body "
       "= " +
           body + "> (h0, x)",
       -1,
       1,
       {"y", "u"}},
      {"ScanAxes",
       "double[2] h0, double[2,4] x, double[2] w",
       "y, u = Scan <num_scan_inputs = 1, scan_input_axes = [-1], scan_output_axes = [1], "
       "scan_output_directions = [1], body = " +
           body + "> (h0, x)",
       -1,
       1,
       {"y", "u"}},
      {"ScanTwoInputs",
       "double[3] h0, double[4,3] x, double[3,4] z",
       "y, u = Scan <num_scan_inputs = 2, scan_input_axes = [0, 1], scan_input_directions = [0, 1], body = "
       "b (double[3] h, double[3] s, double[3] r) => (double[3] g, double[3] o) "
       "{ m = Mul (s, r) g = Add (h, m) o = Sin (g) }> (h0, x, z)",
       -1,
       1,
       {"y", "u"}},
      {"ScanWithoutState", "double[4,2] x, double[2] w",
       "y = Scan <num_scan_inputs = 1, body = b (double[2] s) => (double[2] o) { o = Mul (s, w) }> (x)"},
      {"ScanOfMatrices",
       "double[2,3] h0, double[5,2,4] x, double[4,3] w, double[3,3] r",
       "y, u = Scan <num_scan_inputs = 1, body = b (double[2,3] h, double[2,4] s) => "
       "(double[2,3] g, double[2,3] o) { a = MatMul (s, w) b = MatMul (h, r) c = Add (a, b) g = Tanh (c) "
       "o = Identity (g) }> (h0, x)",
       -1,
       1,
       {"y", "u"}},
      {"ScanInScan",
       "double[2] h0, double[3,4,2] x",
       "y, u = Scan <num_scan_inputs = 1, body = b (double[2] h, double[4,2] s) => (double[2] g, double[4,2] "
       "o) "
       "{ g, o = Scan <num_scan_inputs = 1, body = inner (double[2] h2, double[2] s2) => "
       "(double[2] g2, double[2] o2) { m = Mul (h2, s2) g2 = Add (m, s2) o2 = Sin (g2) }> (h, s) }> (h0, x)",
       -1,
       1,
       {"y", "u"}},
  };
}

}  // namespace

Variants control_variants() {
  Variants all = if_variants();
  for (const auto& family : {loop_variants, scan_variants}) {
    const Variants more = family();
    all.insert(all.end(), more.begin(), more.end());
  }
  return all;
}

}  // namespace kodama::compiler::testing
