#ifndef KODAMA_C_RUNTIME_H
#define KODAMA_C_RUNTIME_H

#include <stddef.h>
#include <stdint.h>

/* kodama/runtime.h for C: loads a package that `kodama compile` wrote, and runs it on a simulated chip.
 *
 *     kodama_package* package;
 *     kodama_session* session;
 *     if (kodama_package_load("resnet18.package", NULL, &package) != KODAMA_OK) ... kodama_last_error() ...
 *     kodama_session_new(package, NULL, &session);
 *     kodama_session_set_input(session, "x", pixels, sizeof(pixels));
 *     kodama_session_run(session);
 *     const void* scores;
 *     size_t bytes;
 *     kodama_session_output(session, "y", &scores, &bytes);
 *
 * Elements are row-major, as the machine has them; float16 and bfloat16 are 16-bit patterns, bool is a byte.
 * Tensors of strings are refused. A session is for one thread at a time, several may run at once; a session
 * keeps its package, so both can be freed in any order. No function ends the program; NULL where a pointer is
 * wanted is KODAMA_USER_ERROR. */
#ifdef __cplusplus
extern "C" {
#endif

typedef enum kodama_status {
  KODAMA_OK = 0,
  KODAMA_USER_ERROR = 1,     /* what was given is wrong */
  KODAMA_UNSUPPORTED = 2,    /* Kodama can't do it */
  KODAMA_INTERNAL_ERROR = 3, /* a bug of Kodama's */
  KODAMA_NO_MEMORY = 4
} kodama_status;

/* ONNX's numbers of element types. */
typedef enum kodama_type {
  KODAMA_FLOAT32 = 1,
  KODAMA_UINT8 = 2,
  KODAMA_INT8 = 3,
  KODAMA_UINT16 = 4,
  KODAMA_INT16 = 5,
  KODAMA_INT32 = 6,
  KODAMA_INT64 = 7,
  KODAMA_STRING = 8,
  KODAMA_BOOL = 9,
  KODAMA_FLOAT16 = 10,
  KODAMA_FLOAT64 = 11,
  KODAMA_UINT32 = 12,
  KODAMA_UINT64 = 13,
  KODAMA_COMPLEX64 = 14,
  KODAMA_COMPLEX128 = 15,
  KODAMA_BFLOAT16 = 16
} kodama_type;

typedef struct kodama_package kodama_package;
typedef struct kodama_session kodama_session;

/* An input or output. The pointers are the package's. */
typedef struct kodama_value_info {
  const char* name;
  kodama_type type;
  size_t rank;
  const int64_t* shape;
  size_t bytes; /* of all elements; 0 for strings */
} kodama_value_info;

typedef struct kodama_session_settings {
  int threads;         /* of the simulator; 0: all cores */
  int timing;          /* 0: no cycles are counted */
  const char* hazards; /* "ignore", "error", "stale", "stall"; NULL: "ignore" */
  int host_overlaps;   /* a run's data pass the host link beside programs as far as they can */
} kodama_session_settings;
/* What NULL stands for: all cores, timing, hazards ignored, host_overlaps. */
kodama_session_settings kodama_default_settings(void);

/* What went wrong in this thread's last call that did not return KODAMA_OK; "" before that. */
const char* kodama_last_error(void);
/* "0.1.0". */
const char* kodama_version(void);

/* `chip`: a name or a file; NULL: the chip that the package names. */
kodama_status kodama_package_load(const char* directory, const char* chip, kodama_package** package);
void kodama_package_free(kodama_package* package); /* NULL: nothing happens */
const char* kodama_package_name(const kodama_package* package);
const char* kodama_package_chip(const kodama_package* package);
size_t kodama_package_input_count(const kodama_package* package);
size_t kodama_package_output_count(const kodama_package* package);
/* `index` from 0; in the model's order. */
kodama_status kodama_package_input(const kodama_package* package, size_t index, kodama_value_info* info);
kodama_status kodama_package_output(const kodama_package* package, size_t index, kodama_value_info* info);

kodama_status kodama_session_new(const kodama_package* package, const kodama_session_settings* settings,
                                 kodama_session** session);
void kodama_session_free(kodama_session* session); /* NULL: nothing happens */
/* Copies the elements, for this and all later runs. `bytes` must be what the input has. */
kodama_status kodama_session_set_input(kodama_session* session, const char* name, const void* elements,
                                       size_t bytes);
kodama_status kodama_session_run(kodama_session* session);
/* Of the last run; valid until the next one, or until the session is freed. */
kodama_status kodama_session_output(const kodama_session* session, const char* name, const void** elements,
                                    size_t* bytes);
/* Of the last run, constants being on the chip; with what happens once, before the first run; and the chip's
 * seconds. 0 before the first run and without timing. */
int64_t kodama_session_cycles(const kodama_session* session);
int64_t kodama_session_first_cycles(const kodama_session* session);
double kodama_session_seconds(const kodama_session* session);

#ifdef __cplusplus
}
#endif

#endif
