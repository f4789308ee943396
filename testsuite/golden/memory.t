Memory that the process may not have: not supported, with what it is for and what to do.

  $ cp -r "$TESTDIR/models" .
  $ ulimit -v 3000000
  $ kodama run models/huge_host.onnx --dim n=1073741824
  kodama: not supported: input 'i' (int64 [1073741824]): this needs more memory than the process may have; set smaller dimensions (--dim), or raise the limit
  [3]
  $ kodama run models/linear.onnx
  kodama: not supported: the host can't provide 4294967296 bytes of address space for the chip's memory; raise the process's limit, or take a chip with less DRAM (dram_lw)
  [3]
