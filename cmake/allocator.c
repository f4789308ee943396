/* jemalloc reads this (its manual, "TUNING"; MALLOC_CONF in the environment overrides it). A compilation allocates
 * gigabytes that it frees soon, in pages of 4 KiB that a kernel hands out one by one; in pages of 2 MiB, where the
 * kernel has them, it takes two thirds of the time (docs/schedules.md, "How long it takes"). */
const char* malloc_conf = "thp:always,metadata_thp:auto";
