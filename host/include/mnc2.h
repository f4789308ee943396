#ifndef MNC2_H
#define MNC2_H

#include <stddef.h>
#include <stdint.h>

/**
 * The host API of MN-Core 2, on Kodama's simulator: host programs in C and C++ run unchanged, without a
 * board.
 *
 *     mnc2_device_t dev = mnc2_open(0);                       // MNC2_EMU_CONFIG must be set
 *     mnc2_kernel_t kernel = mnc2_load_kernel(dev, "add.idma.dat");
 *     mnc2_send(dev, input, 0, bytes, 0);                     // PDM of group 0, from byte 0 on
 *     mnc2_exec_kernel(kernel);
 *     mnc2_recv(dev, output, bytes, bytes, 0);                // when the kernel is done
 *     mnc2_free_kernel(kernel);
 *     mnc2_close(dev);
 *
 * Names, arguments and results are those of the vendor's public SDK reference (0.4.1), as far as it says
 * them; [A] marks what it doesn't say and we chose. docs/host-programs.md has the whole list.
 *
 * All calls may be made from several threads. No call crashes for its arguments: NULL, a handle that was
 * closed, freed or released, or one of another kind is MNC2_ERROR_PARAM (NULL where a pointer is returned).
 * Offsets and sizes of transfers are bytes of PDM 0; addresses and counts of debug calls are long words (LW).
 * What went wrong, where the program can't know, is said on standard error in lines that begin with "mnc2: ".
 */

#ifdef __cplusplus
extern "C" {
#endif

typedef struct mnc2_device* mnc2_device_t;
typedef struct mnc2_kernel* mnc2_kernel_t;
typedef struct mnc2_dma_handle* mnc2_dma_handle_t;

/** Results of calls. */
enum {
  MNC2_SUCCESS = 0,
  MNC2_ERROR_DEVICE = -1,  /**< not on this back end; or the device was closed meanwhile */
  MNC2_ERROR_DMA = -2,     /**< a transfer was cut off by mnc2_reset */
  MNC2_ERROR_PIO = -3,     /**< never here */
  MNC2_ERROR_IO = -4,      /**< never here */
  MNC2_ERROR_TIMEOUT = -5, /**< what was waited for can't come any more, or didn't in time */
  MNC2_ERROR_ENV = -6,     /**< never here: mnc2_open returns NULL */
  MNC2_ERROR_PARAM = -7,   /**< an argument is wrong */
  MNC2_ERROR_KERNEL = -8,  /**< the chip refused a kernel while it ran */
  MNC2_ERROR_BUSY = -9     /**< a queue is full, a pool is exhausted, or a snapshot isn't there yet */
};

/** Back ends. */
enum {
  MNC2_BACKEND_UNKNOWN = -1,
  MNC2_BACKEND_DEVICE = 0,
  MNC2_BACKEND_EMU_PROCESS = 1,
  MNC2_BACKEND_EMU_LIB = 2 /**< a simulator inside the process: this one */
};

/** Memories for mnc2_debug_read and mnc2_debug_write; the numbers are [A]. */
enum {
  MNC2_MEM_PDM = 0,
  MNC2_MEM_DRAM = 1,
  MNC2_MEM_L2BM = 2,
  MNC2_MEM_L1BM = 3,
  MNC2_MEM_LM0 = 4,
  MNC2_MEM_LM1 = 5,
  MNC2_MEM_GRF0 = 6,
  MNC2_MEM_GRF1 = 7
};

/** A place in the tree; what lies below the memory's level is ignored. Names but `chip` are [A]. */
typedef struct mnc2_loc {
  int chip; /**< the group */
  int l2b;  /**< in the group */
  int l1b;  /**< in the L2B */
  int mab;  /**< in the L1B */
  int pe;   /**< in the MAB */
} mnc2_loc_t;
/* clang-format off */
#define MNC2_LOC_INIT {0, 0, 0, 0, 0}
/* clang-format on */

/* ---- devices */

/**
 * Opens a simulated chip of its own, with all memories zero. `number`: 0 to 63 [A]; the same number again is
 * another chip [A]. NULL when the number is wrong, MNC2_EMU_CONFIG isn't set (to anything) as emulators want
 * it, the chip of KODAMA_CHIP (default mncore2) isn't there, or memory is short.
 */
mnc2_device_t mnc2_open(int number);
/** Runs what can be run of what was started, and frees all of the device: kernels and handles of it are then
 * no more, buffers of mnc2_alloc_host_buffer stay. NULL and closed ones: nothing. */
void mnc2_close(mnc2_device_t dev);
/** Drops kernels and transfers in the queues, arrivals of tags and the overflow marks. All memories, PDM
 * among them, the endian control, the pools' allocations and loaded kernels stay. */
int mnc2_reset(mnc2_device_t dev);
/** "emu:lib"; "unknown" for NULL and closed devices. */
const char* mnc2_get_backend_name(mnc2_device_t dev);
/** MNC2_BACKEND_EMU_LIB. */
int mnc2_get_backend(void);

/* ---- buffers and transfers */

/** Zeroed memory of the host, aligned to pages, for transfers; any other memory will do, too. NULL for a
 * wrong device, size 0 or too large. */
void* mnc2_alloc_host_buffer(mnc2_device_t dev, size_t size);
/** Also after mnc2_close. What is no such buffer (or isn't any more) is left alone; the size is not needed.
 */
void mnc2_free_host_buffer(mnc2_device_t dev, void* buffer, size_t size);

/**
 * Host to PDM of group 0, at once. `pdm_offset` and `size` in bytes, multiples of 8; size > 0; tag 0 to 63. A
 * tag other than 0 has then arrived for a kernel's `wait i<tag>`, which takes the arrival: the next `wait`
 * wants the next one. (When the host needs the kernel finished, and nothing new comes, a tag that arrived and
 * was not cleared since counts again [A].)
 */
int mnc2_send(mnc2_device_t dev, const void* buf, uint64_t pdm_offset, size_t size, unsigned tag);
/** PDM of group 0 to host, when all that was started before is finished. MNC2_ERROR_TIMEOUT when a kernel
 * waits for a tag that doesn't come, MNC2_ERROR_KERNEL when one was refused since the last report (the data
 * is there then). A tag other than 0 counts as one of mnc2_send for mnc2_tag_… but no kernel waits for it
 * [A]. */
int mnc2_recv(mnc2_device_t dev, void* buf, uint64_t pdm_offset, size_t size, unsigned tag);

/**
 * How bytes of the host become long words, for all transfers from now on; memories count from the most
 * significant byte of each LW. 0: blocks of 64 bytes (counted from the transfer's first one; a shorter last
 * one by itself [A]) are reversed, 1: bytes as they are, 2, 3, 4: values of 16, 32, 64 bits keep their value.
 * 4, the default, makes a uint64_t of a little-endian host the LW of that value.
 */
int mnc2_set_endian_ctrl(mnc2_device_t dev, int control);
int mnc2_get_endian_ctrl(mnc2_device_t dev);

/** As mnc2_send and mnc2_recv, without waiting; the buffer belongs to the transfer until it is done. NULL for
 * wrong arguments and full queues (62 that wait for kernels). */
mnc2_dma_handle_t mnc2_async_send(mnc2_device_t dev, const void* buf, uint64_t pdm_offset, size_t size,
                                  unsigned tag);
mnc2_dma_handle_t mnc2_async_recv(mnc2_device_t dev, void* buf, uint64_t pdm_offset, size_t size,
                                  unsigned tag);
/** 1 or 0 in *done. MNC2_ERROR_DMA (and 1) for one that was cut off. */
int mnc2_async_poll(mnc2_dma_handle_t handle, int* done);
/** Until it is done; then as mnc2_recv. */
int mnc2_async_wait(mnc2_dma_handle_t handle);
/** The handle is no more. A transfer that isn't done is waited for first: its buffer may be freed after. */
int mnc2_async_release(mnc2_dma_handle_t handle);

/** Until no transfer is under way. */
int mnc2_wait_ddma_idle(mnc2_device_t dev);
/** Until no kernel is. MNC2_ERROR_TIMEOUT, MNC2_ERROR_KERNEL: as for mnc2_recv. */
int mnc2_wait_idma_idle(mnc2_device_t dev);

/* ---- kernels */

/**
 * Reads a kernel: Kodama's binary program, machine words, or VSM text, told by content. If the path isn't
 * there, the same name with .asm or .vsm, for x.idma.dat also x.asm, x.vsm. NULL when it isn't there, is
 * empty or no program for this chip; standard error says why.
 */
mnc2_kernel_t mnc2_load_kernel(mnc2_device_t dev, const char* path);
/**
 * Queues a kernel; it runs when those before it are done and all tags that it waits for have arrived (no
 * `wait` for tags of its own MVs). Memories keep their contents from kernel to kernel. MNC2_ERROR_BUSY when
 * 31 are queued; MNC2_ERROR_KERNEL when it ran at once, and was refused.
 */
int mnc2_exec_kernel(mnc2_kernel_t kernel);
/** Waits until all its runs are done (those that can't be are dropped), then frees it. */
void mnc2_free_kernel(mnc2_kernel_t kernel);
/** Tags that the kernel's `wait`s name, and those of its MVs, in ascending order: at most `max` of each, all
 * counted. The arrays may be NULL, the counts not. */
int mnc2_kernel_get_dma_tags(mnc2_kernel_t kernel, uint8_t* wd, uint8_t* mv, int max, int* n_wd, int* n_mv);

/* ---- debugging */

/** `count` long words from `addr` on, in LW, of a memory at a place (NULL: all zeros), whatever the endian
 * control. Runs what can be run first; a kernel that waits for a tag stays where it is. */
int mnc2_debug_read(mnc2_device_t dev, int memory, const mnc2_loc_t* loc, int addr, int count, uint64_t* out);
int mnc2_debug_write(mnc2_device_t dev, int memory, const mnc2_loc_t* loc, int addr, int count,
                     const uint64_t* data);

/* ---- limits: how often waiting calls look, each 0.2 ms here [A]; while a kernel runs none is counted. `set`
 * returns the value before, -1 for a wrong device, MNC2_ERROR_PARAM for a negative value. `ddma_complete_max`
 * (2000) and `idma_complete_max` (5000) end waits; nothing is ever kicked in vain, so the other two (100) are
 * kept, and mean nothing. */
int mnc2_get_ddma_kick_verify_max(mnc2_device_t dev);
int mnc2_set_ddma_kick_verify_max(mnc2_device_t dev, int value);
int mnc2_get_ddma_complete_max(mnc2_device_t dev);
int mnc2_set_ddma_complete_max(mnc2_device_t dev, int value);
int mnc2_get_idma_kick_verify_max(mnc2_device_t dev);
int mnc2_set_idma_kick_verify_max(mnc2_device_t dev, int value);
int mnc2_get_idma_complete_max(mnc2_device_t dev);
int mnc2_set_idma_complete_max(mnc2_device_t dev, int value);

/* ---- state of the queues */

typedef struct mnc2_ddma_channel_stat {
  int active;   /**< 1: transfers are queued */
  int regset;   /**< address register of the first one [A] */
  int overflow; /**< 1: one was refused since the last reset */
  int n_dma;    /**< queued */
} mnc2_ddma_channel_stat_t;

typedef struct mnc2_ddma_stat {
  mnc2_ddma_channel_stat_t host_to_pdm[2];
  mnc2_ddma_channel_stat_t pdm_to_host[2];
} mnc2_ddma_stat_t;

typedef struct mnc2_idma_stat {
  int n_dma;        /**< kernels queued */
  int inst_in_ibuf; /**< of the first one, what the instruction buffer holds */
  int overflow;     /**< 1: one was refused since the last reset */
} mnc2_idma_stat_t;

int mnc2_get_ddma_stat(mnc2_device_t dev, mnc2_ddma_stat_t* stat);
int mnc2_get_idma_stat(mnc2_device_t dev, mnc2_idma_stat_t* stat);

/* ---- pools. The table names these calls; arguments are [A]. `alloc` returns the number, or MNC2_ERROR_BUSY
 * when there is none left, and `free` of what isn't allocated is MNC2_ERROR_PARAM. Tags and wait slots are
 * the numbers of `mnc2_send` and `wait i<tag>`, and work whether they were allocated or not. */

/** PDM tags, 1 to 63: count the bytes of transfers and of MVs with the tag. */
int mnc2_tag_alloc(mnc2_device_t dev);
int mnc2_tag_free(mnc2_device_t dev, int tag);
/** How many bytes make it done; 0, as at first: any transfer does. */
int mnc2_tag_set_size(mnc2_device_t dev, int tag, uint64_t size);
int mnc2_tag_check_done(mnc2_device_t dev, int tag, int* done);
/** Runs kernels as far as they go; MNC2_ERROR_TIMEOUT when the tag isn't done then. */
int mnc2_tag_wait(mnc2_device_t dev, int tag);
/** No bytes have come. */
int mnc2_tag_clear(mnc2_device_t dev, int tag);

/** Wait slots, 1 to 63: bit `slot` says that transfers with this tag have arrived. */
int mnc2_wd_alloc(mnc2_device_t dev);
int mnc2_wd_free(mnc2_device_t dev, int slot);
int mnc2_wd_wait(mnc2_device_t dev, int slot);
/** Clears the slot's bit: a kernel that waits for the tag wants a new arrival. mnc2_clear_wdbit does the
 * same. */
int mnc2_wd_clear(mnc2_device_t dev, int slot);
int mnc2_clear_wdbit(mnc2_device_t dev, int slot);
/** All bits, that of slot 0 lowest. A bit stays until it is cleared, also when a kernel has waited for it. */
int mnc2_get_wdbit_status(mnc2_device_t dev, uint64_t* bits);

/** Address registers, 0 to 63. */
int mnc2_regset_alloc(mnc2_device_t dev);
int mnc2_regset_free(mnc2_device_t dev, int regset);

/* ---- capture: what the sequencer did, in steps since mnc2_open; meanings are [A] */

typedef struct mnc2_capture {
  uint64_t all_nop;   /**< steps in which nothing was issued: those of `nop`, and stalls */
  uint64_t empty_nop; /**< stalls because an instruction hadn't come over the host link */
  union {
    uint64_t power_nop; /**< stalls to save power: none here */
    uint64_t tag[256];  /**< by tag, stalls of `wait` for it */
  };
} mnc2_capture_t;

/** Steps issued, those of `nop` among them. */
int mnc2_capture_get_inst(mnc2_device_t dev, uint64_t* count);
/** Snapshot `sel` (0 to 3) will be taken when the counter gets to `counter`; at once if it is there. */
int mnc2_capture_set_trigger(mnc2_device_t dev, int sel, uint64_t counter);
/** The snapshot; MNC2_ERROR_BUSY before it is taken. Without a trigger, what is now. */
int mnc2_capture_read(mnc2_device_t dev, int sel, mnc2_capture_t* capture);

/* ---- registers of the board: MNC2_ERROR_DEVICE on emulators (MNC2_ERROR_PARAM for a wrong device) */

int mnc2_read_pio(mnc2_device_t dev, uint64_t address, uint32_t* value);
int mnc2_write_pio(mnc2_device_t dev, uint64_t address, uint32_t value);

#ifdef __cplusplus
}
#endif

#endif
