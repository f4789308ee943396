Where the cycles of the schedule in docs/timing.md went:

  $ cp "$TESTDIR/../timing/overlap.vsm" .
  $ kodama sim overlap.vsm --stats
  37 steps (34 nop), 3 MV transfers, 408 cycles (257 waiting)
  408 cycles, 0.001 ms on mncore2 at 750 MHz
    steps                                  148   36.3 %
    waiting for transfers                  129   31.6 %
    instructions not there yet               3    0.7 %
    last transfers                         128   31.4 %
  37 steps by slot, 3 transfers
    L2BM                                     1    2.7 %
    L1BM                                     1    2.7 %
    MAU                                      1    2.7 %
    ALU                                      0    0.0 %
    empty                                   34   91.9 %
  MAU at 1.0 % of peak
    float vector                             1 steps  3.277e+04 multiply-adds, 1.0 % of peak
  memory                        read        written     of peak
    DRAM                         0 B         8192 B       3.7 %
    PDM                      24.6 kB            0 B       5.9 %
    L2BM, MV side             8192 B        24.6 kB       3.9 %
    L2BM, L1B side            4096 B            0 B       0.2 %
    L1BM, L2B side               0 B        32.8 kB       1.0 %
    L1BM, PE side           131.1 kB            0 B       1.0 %
    LM                      131.1 kB       262.1 kB       0.7 %
    GRF                          0 B            0 B       0.0 %
    host link                 1480 B                     10.9 %
  transfer ports                                     moved     busy
    DRAM of group 0                             8192 B   14.7 %
    PDM of group 0, read port                  24.6 kB   47.1 %
    L2BM 0 of group 0, MV read port             8192 B   15.7 %
    L2BM 0 of group 0, MV write port           24.6 kB   47.1 %
  DRAM rows: 0 hits, 4 misses, 0 turn-arounds
  bound: PDM of group 0, read port, busy 47.1 % of all cycles; nothing is busy half of the time: steps and transfers wait for each other
  roofline: 17.00 times the bound of 24 cycles (PDM: work over peak, host link left out)
  region                              steps        cycles  share  MAU    stalls
    load                                  21           196  48.0 %   0.0 %  109 waiting for transfers, 3 instructions not there yet
    compute                               11            64  15.7 %   6.2 %  20 waiting for transfers
    store                                  5            20   4.9 %   0.0 %  -
  line        cycles  share  the 10 lines of 13 with most cycles
       6         113  27.7 %  nop; wait i01  (109 waiting for transfers)
       5          81  19.9 %  nop/20  (1 instructions not there yet)
      15          24   5.9 %  nop; wait i02  (20 waiting for transfers)
      18          20   4.9 %  nop/5
      14          16   3.9 %  nop/4
      12           8   2.0 %  nop/2
       9           4   1.0 %  l2bmb $lc0 $lb0
      10           4   1.0 %  nop
      11           4   1.0 %  l1bmd $lb0 $lm0v
      13           4   1.0 %  fvfma $lm0v $lm0v $lm0v $ln0v

  $ kodama sim overlap.vsm --stats csv | cut -d, -f1-10
  37 steps (34 nop), 3 MV transfers, 408 cycles (257 waiting)
  scope,name,cycles,cycles_steps,cycles_wait,cycles_mv_queue,cycles_host_link,cycles_hazard,cycles_drain,cycles_host_input
  total,"",408,148,129,0,3,0,128,0
  region,"load",196,84,109,0,3,0,0,0
  region,"compute",64,44,20,0,0,0,0,0
  region,"store",20,20,0,0,0,0,0,0
  line,"3: mvp/n2048i01 $p0@0 $lc0@0.0",0,0,0,0,0,0,0,0
  line,"4: mvp/n1024i02 $p2048@0 $lc2048@0.0",2,0,0,0,2,0,0,0
  line,"5: nop/20",81,80,0,0,1,0,0,0
  line,"6: nop; wait i01",113,4,109,0,0,0,0,0
  line,"9: l2bmb $lc0 $lb0",4,4,0,0,0,0,0,0
  line,"10: nop",4,4,0,0,0,0,0,0
  line,"11: l1bmd $lb0 $lm0v",4,4,0,0,0,0,0,0
  line,"12: nop/2",8,8,0,0,0,0,0,0
  line,"13: fvfma $lm0v $lm0v $lm0v $ln0v",4,4,0,0,0,0,0,0
  line,"14: nop/4",16,16,0,0,0,0,0,0
  line,"15: nop; wait i02",24,4,20,0,0,0,0,0
  line,"18: nop/5",20,20,0,0,0,0,0,0
  line,"19: mvp/n1024i03 $lc0@0.0 $d0@0",0,0,0,0,0,0,0,0

  $ kodama sim overlap.vsm --stats=json --stats-file stats.json
  37 steps (34 nop), 3 MV transfers, 408 cycles (257 waiting)
  wrote stats.json
  $ grep -c roofline stats.json
  8

Without timing there are no cycles:

  $ kodama sim overlap.vsm --no-timing
  37 steps (34 nop), 3 MV transfers
  $ kodama sim overlap.vsm --no-timing --stats
  kodama: error: --no-timing: allowed only without --stats, --trace and --vcd, which show time
  [2]

Traces of a window:

  $ kodama sim overlap.vsm --trace trace.json --vcd trace.vcd --trace-from 196 --trace-to 236
  37 steps (34 nop), 3 MV transfers, 408 cycles (257 waiting)
  wrote trace.json
  wrote trace.vcd
  $ grep -o '"name":"[a-z]*","cat":"[A-Z0-9]*"' trace.json
  "name":"fvfma","cat":"MAU"
  $ kodama sim overlap.vsm --trace trace.json --trace-from 10 --trace-to 5
  kodama: error: --trace-from 10 --trace-to 5: allowed are cycles from 0 on, the first before the second
  [2]
  $ kodama sim overlap.vsm --stats-file x
  kodama: error: --stats-file: allowed only with --stats
  [2]
