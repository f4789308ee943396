What `kodama help` prints comes from the options of the commands, and from the pages of docs/.

  $ kodama help | head -4
  Kodama: simulator, assembler and compiler for MN-Core-like chips
  Usage: kodama [OPTIONS] SUBCOMMAND
  
  Options:
  $ kodama help | grep -A2 -E "^Pages|^  precision"
  Pages, which 'kodama help PAGE' prints:
    builder                     Building models in C++
    chips                       Chips
  --
    precision                   Precision
    python                      Python
    recipes                     Recipes: adding things
  $ kodama help asm
  check a VSM program and write it in another form
  Usage: kodama asm [OPTIONS] program
  
  Positionals:
    program TEXT REQUIRED       program.vsm
  
  Options:
    -h,--help                   Print this help message and exit
    -o,--output TEXT            file to write (default: standard output)
    --chip TEXT=mncore2         name of a chip, or a chip file; behind it
                                ,KEY=VALUE for keys of the file
    --format TEXT:{text,words,binary}=text
                                text (normal form), words (the vendor's 'i' lines)
                                or binary (a complete program file)
    --allow-inferred            words: also fields whose meaning is inferred, not
                                seen
  
  Options of every command:
    --quiet Excludes: --verbose say nothing but errors, and what was asked for
    --verbose Excludes: --quiet say all: every table, legends, the time of each
                                phase
  
  $ kodama asm --help | diff - <(kodama help asm)
  $ kodama help bench packing | head -3
  an address packer on generated problems with known solutions, or on files
  Usage: kodama bench packing [OPTIONS] [files...]
  

A page, in lines of 80 characters without a terminal:

  $ kodama help precision | head -17
  Precision
  
  Maps and reductions compute in single precision with the chip's multiply-add
  (24-bit significands, low partial products dropped, one rounding); functions
  such as exp or tanh are polynomials and Newton steps on it
  (compiler/kernels/scalar_lowering.cpp), within a few units in the last place.
  Matrix products run on the matrix unit in block-float form:
  
  --precision       significant bits of  block  accumulation  allowed error over
                    an operand                                largest magnitude
  --------------------------------------------------------------------------------
  gfloat (default)  18                   8      single        1e-3
  
  float             23                   4      single        1e-5
  
  half              9                    16     single        5e-2
  
  $ kodama help layouts | wc -L | grep -cE "^([0-9]|[0-9][0-9]|1[0-9][0-9])$"
  1

Of some names there is both, a command and a page:

  $ kodama help chips | grep -E "^Usage|^  --keys|^YAML"
  Usage: kodama chips [OPTIONS]
    --keys                      list the keys of chip files: unit, what is
  YAML, by the name that ends in .yaml. base takes over what the file doesn't say
  $ kodama help tutorials/chip | head -1
  A chip of your own

  $ kodama help chps 2>&1 | cut -c 1-60
  kodama: error: help: there is no topic 'chps'; allowed: run,
  $ kodama help bench chips 2>&1 | cut -c 1-60
  kodama: error: help: there is no topic 'bench chips'; allowe
  $ kodama help --man man chips
  kodama: error: help topic: no effect with --man; what has one: --man
  [2]

Man pages, one for each command:

  $ kodama help --man man 2>&1 | grep bench
  wrote man/kodama-layout-bench.1
  wrote man/kodama-bench.1
  wrote man/kodama-bench-bandwidth.1
  wrote man/kodama-bench-kernels.1
  wrote man/kodama-bench-schedule.1
  wrote man/kodama-bench-packing.1
  wrote man/kodama-bench-recompute.1
  $ kodama --quiet help --man man
  $ man -l man/kodama-asm.1 2>/dev/null | head -8
  kodama-asm(1)                       Kodama                       kodama-asm(1)
  
  NAME
         kodama-asm - check a VSM program and write it in another form
  
  SYNOPSIS
         kodama asm [OPTIONS] program
  
  $ touch file; kodama help --man file/no
  kodama: error: file/no: can't be written (Not a directory)
  [2]
  $ kodama help --man ""
  kodama: error: --man: name a directory
  [2]
