Commands and options in bash.

  $ kodama completion > completion.sh
  $ complete() { :; }; . ./completion.sh; unset -f complete
  $ try() { COMP_WORDS=(kodama "$@"); COMP_CWORD=$#; _kodama; echo "${COMPREPLY[@]}"; }

  $ try ch
  check chips
  $ try bench k
  kernels
  $ try bench schedule --sch
  --scheduler
  $ try help prec
  precision
  $ try help chi
  chips
  $ try run --qui
  --quiet
  $ try run --pre
  --precision
  $ try run model.onnx --chip tiny --host
  --host
  $ try train model.onnx --check
  --checkpoint --checkpoint-every
  $ try no-such-command --x
  
  $ try run model
  
