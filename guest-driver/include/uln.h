/* SPDX-License-Identifier: ((GPL-2.0-only WITH Linux-syscall-note) OR MIT) */
/*
 * What a guest and any card of the family agree on.
 *
 * Made from device/abi by cargo run -p hamlyn-headers: do not edit.
 */
#ifndef _ULN_H
#define _ULN_H

#include <linux/types.h>

/* Page lists, by which a driver names a piece of host memory that need not be contiguous. */

/* The largest area, in bytes: the reach of a page of pointers to pages of page addresses. */
#define ULN_MAX_AREA 1073741824ULL

/*
 * A piece of host memory that need not be contiguous.
 *
 * directory is the address of a 4,096-byte page with 512 addresses of list pages. Each list page
 * has 512 addresses of 4,096-byte pages. Byte i of the area is byte first + i of the pages
 * laid end to end. (On the paper's machine, an I/O memory-management unit did this, section 4.)
 * The pages of the directory and lists belong to the driver.
 */
struct uln_area {
	/* Address of the directory page, 4,096-byte aligned. */
	__le64 directory;
	/* Bytes, 1 to ULN_MAX_AREA minus first. */
	__le64 length;
	/* Offset of the area's start in the first page, 0 to 4,095. */
	__le32 first;
	/* Zero. */
	__le32 reserved;
};

/*
 * The command page, by which the driver changes what only the operating system may change.
 *
 * The driver fills the command page with a uln_command, followed by the operation's own
 * structure at ULN_COMMAND_BODY. It then stores to ULN_REG_COMMAND_GO. The card
 * executes the command completely or not at all, and writes status, value and limit back.
 * When the store has completed, no deposit or gather that only an earlier state allowed is in
 * flight. So memory that a closed object named may be unpinned.
 */

/* RW, 8 bytes. Address of the command page in host memory, 4,096-byte aligned. */
#define ULN_REG_COMMAND_PAGE 0x040

/*
 * WO. Any value: executes the command in the command page. The write completes when the command
 * has.
 */
#define ULN_REG_COMMAND_GO 0x048

/* RO. Status of the last command, even if the command page itself was not accessible. */
#define ULN_REG_COMMAND_STATUS 0x04c

/* Size and alignment of the command page, in bytes. */
#define ULN_COMMAND_PAGE_SIZE 4096

/* Offset in the command page of the operation's own structure. */
#define ULN_COMMAND_BODY 64

/*
 * Writes the card's counters, a u64 each in the model's order, to the body. All models have this
 * operation.
 */
#define ULN_COMMAND_READ_STATISTICS 9

/* Self-test of DMA. Body: uln_test_dma. All models have this operation. */
#define ULN_COMMAND_TEST_DMA 10

/* Status: done. */
#define ULN_STATUS_OK 0

/* Status: no such operation; value is its code. */
#define ULN_STATUS_BAD_OPCODE 1

/* Status: index is out of range; limit is the size of the table. */
#define ULN_STATUS_BAD_INDEX 2

/* Status: the object is open already, or in use. */
#define ULN_STATUS_IN_USE 3

/* Status: the object, or one that the body names, is not open. */
#define ULN_STATUS_NOT_OPEN 4

/* Status: a length is zero or over limit. */
#define ULN_STATUS_BAD_LENGTH 5

/* Status: an address or offset is misaligned or out of range. */
#define ULN_STATUS_BAD_ADDRESS 6

/* Status: a mode, flag, tag, vector or reserved field has an invalid value. */
#define ULN_STATUS_BAD_VALUE 7

/* Status: host memory was not accessible; value is the address. */
#define ULN_STATUS_DMA_FAULT 8

/* Status: the command page was not set, or bus mastering is off. */
#define ULN_STATUS_NO_PAGE 9

/* Status: the card's memory has no free block of value bytes; limit bytes are free in total. */
#define ULN_STATUS_MEMORY_FULL 10

/* Head of the command page. */
struct uln_command {
	/* ULN_COMMAND_* of the family or of the model. */
	__le32 opcode;
	/* The object's number. */
	__le32 index;
	/* Written by the card: ULN_STATUS_*. */
	__le32 status;
	/* Zero. */
	__le32 reserved;
	/* Written by the card if it refuses the command: the invalid value. */
	__le64 value;
	/* Written by the card if it refuses the command: the limit. */
	__le64 limit;
};

/* Body of ULN_COMMAND_TEST_DMA: the card copies length bytes from from to to. */
struct uln_test_dma {
	/* Address to read. */
	__le64 from;
	/* Address to write. */
	__le64 to;
	/* Bytes, 1 to 4,096. */
	__le64 length;
};

/* The enable bit, and the handshake timer that clears it if the host has died (section 2.8). */

/* RW. Control bits: ULN_CONTROL_ENABLE. Writing ULN_CONTROL_RESET resets the card. */
#define ULN_REG_CONTROL 0x020

/*
 * RO. The handshake timer's period, in milliseconds (section 2.8); 0 if the card has no such
 * timer.
 */
#define ULN_REG_HANDSHAKE_TIMEOUT 0x050

/*
 * WO. Any value: restarts the handshake timer. If the host does not restart it for a whole period,
 * the card clears ULN_CONTROL_ENABLE. It then discards arriving packets until the host sets
 * the bit again.
 */
#define ULN_REG_HANDSHAKE 0x054

/*
 * The card sends and receives packets. Until the bit is set, and after the handshake timer has
 * expired, the card discards every arriving packet (section 2.8).
 */
#define ULN_CONTROL_ENABLE 1

/* Resets the card: closes every object and clears the enable bit. */
#define ULN_CONTROL_RESET 2

/*
 * Express memory: memory that two hosts share, and no other host. A PCI function of its own
 * exposes it, next to a card of any model.
 *
 * The function has one BAR, index 0, 64 bits wide and prefetchable. Its first page has the
 * registers below, which are trapped. The rest holds *parts*, one for each other host. A part is
 * mapped memory with the same bytes as that host's part for this one. Addresses between parts are
 * unused: reads return zero, stores have no effect. The operating systems arrange what a part is
 * used for (express).
 *
 * A card may have several such functions, each with parts for other hosts. In that case each part
 * is a separate file.
 */

/* PCI device id of a function with express memory, for a card of any model. */
#define ULN_PCI_EXPRESS 0x4845

/* PCI class code of such a function: memory controller, other. */
#define ULN_PCI_EXPRESS_CLASS 0x058000

/* Value of ULN_EXPRESS_REG_MAGIC: the letters HEXP. */
#define ULN_EXPRESS_MAGIC 0x50584548

/*
 * Value of ULN_EXPRESS_REG_VERSION. The major version (incompatible changes) is in the
 * upper half, the minor version (additions) in the lower.
 */
#define ULN_EXPRESS_VERSION 0x00010000

/* RO, 4 bytes. ULN_EXPRESS_MAGIC. */
#define ULN_EXPRESS_REG_MAGIC 0x000

/* RO, 4 bytes. ULN_EXPRESS_VERSION. */
#define ULN_EXPRESS_REG_VERSION 0x004

/*
 * RO, 4 bytes. The host id that this side has in the parts. It never changes. If the card moves to
 * another port of its switch, the memory is useless.
 */
#define ULN_EXPRESS_REG_HOST 0x008

/*
 * RO, 4 bytes. Upper bound of the host ids that parts can exist for, at most
 * ULN_EXPRESS_HOSTS.
 */
#define ULN_EXPRESS_REG_HOSTS 0x00c

/*
 * RO, 8 bytes. Size of each part in bytes: a power of two from ULN_EXPRESS_LEAST_PART to
 * ULN_EXPRESS_MOST_PART.
 */
#define ULN_EXPRESS_REG_PART 0x010

/*
 * RO, 8 bytes. Identifies the memory: a random number, never 0. Two hosts share a part if their
 * numbers are equal.
 */
#define ULN_EXPRESS_REG_MEMORY 0x018

/*
 * RO, 4 bytes. The complement of the last value written to the card's ULN_REG_SCRATCH, so
 * that a driver can tell which card the function belongs to.
 */
#define ULN_EXPRESS_REG_SCRATCH 0x020

/*
 * RO, 8 bytes for each host id: offset in the BAR of the part for that host, a multiple of 4,096;
 * 0 if it has no part here.
 */
#define ULN_EXPRESS_REG_PARTS 0x100

/* Bytes of the registers, at the beginning of the BAR. */
#define ULN_EXPRESS_REGISTERS_SIZE 4096

/* Maximum number of hosts with express memory. */
#define ULN_EXPRESS_HOSTS 64

/* The smallest part, in bytes. */
#define ULN_EXPRESS_LEAST_PART 0x10000

/* The largest part, in bytes. */
#define ULN_EXPRESS_MOST_PART 0x10000000

/*
 * Identity of a card on the PCI bus, and in the first registers of BAR 0.
 *
 * Accesses to BAR 0 are 4 or 8 bytes wide, aligned.
 */

/*
 * PCI vendor id of the family. The PCI-SIG has not assigned it. QEMU uses it for devices that
 * exist nowhere else.
 */
#define ULN_PCI_VENDOR 0x1234

/* PCI class code: network controller, other. */
#define ULN_PCI_CLASS 0x028000

/*
 * PCI class code of an additional function that takes posted stores: generic system peripheral,
 * other.
 */
#define ULN_PCI_DOORBELL_CLASS 0x088000

/* Size of BAR 0, in bytes. */
#define ULN_REGISTERS_SIZE 4096

/* Value of ULN_REG_MAGIC: the letters HMLN. */
#define ULN_MAGIC 0x4e4c4d48

/* RO. ULN_MAGIC. */
#define ULN_REG_MAGIC 0x000

/* RO. Model of the card. */
#define ULN_REG_MODEL 0x004

/*
 * RO. Version of the model's contract that the card implements. The major version (incompatible
 * changes) is in the upper half, the minor version (additions) in the lower.
 */
#define ULN_REG_ABI_VERSION 0x008

/*
 * RW. Self-test of register access. Returns the complement of the last value written. So does
 * every doorbell of either function, which tells a driver whether a second function belongs to
 * this card.
 */
#define ULN_REG_SCRATCH 0x014

/*
 * RO. Features of the card beyond its contract: ULN_FEATURE_COHERENT. A card without this
 * register reads as 0.
 */
#define ULN_REG_FEATURES 0x05c

/*
 * Windows that a BAR maps are memory of the machine's host. Card and guest access them through one
 * coherent cache.
 *
 * If the bit is set, the driver maps them cached (write-back), otherwise uncached. A hardware card
 * does not set it. It sees a cached store only when the line is evicted. The guest never sees the
 * card's stores in a line that it has cached. Each side orders its accesses as between processors.
 * A store that publishes is a release, and a load that looks for one is an acquire. A full barrier
 * stands between a store and a load that must not pass it.
 */
#define ULN_FEATURE_COHERENT 1

/* A card's interrupts: MSI-X vectors. The first one is the link's. */

/* WO. Self-test of interrupts: raises the MSI-X vector with the written number. */
#define ULN_REG_INTERRUPT_TEST 0x018

/* RO. Number of MSI-X vectors. Vector 0 reports link changes; the others are the model's. */
#define ULN_REG_VECTORS 0x038

/* MSI-X vector that reports a change of the link. */
#define ULN_VECTOR_LINK 0

/* Maximum number of MSI-X vectors of a card. */
#define ULN_MAX_VECTORS 16

/* The card's host id, and the state of its link. */

/* RO. The card's host id: its port on the switch. ULN_NO_HOST while the link is down. */
#define ULN_REG_HOST_ID 0x00c

/* RO. 1 while the link to the switch is up. */
#define ULN_REG_LINK 0x010

/*
 * RO. Number of link changes since power-on, modulo 2^32. It counts each time the link comes up,
 * goes down or is replaced, and keeps its value when the card is reset. So a driver that rarely
 * looks can tell that a link which is up was down meanwhile.
 */
#define ULN_REG_LINK_CHANGES 0x01c

/*
 * RO. Number of ports of the switch, which is the upper bound of host ids. 0 while the link is
 * down, or if the switch does not report it.
 */
#define ULN_REG_PORTS 0x058

/* Instead of a host id: the link is down. */
#define ULN_NO_HOST 0xffffffff

/*
 * Words by which the driver shows which objects have sleeping owners, and the card which
 * interrupts are pending.
 *
 * They are in a window that the driver maps; each card defines their offsets. Each is 4 bytes, in
 * a cache line of its own.
 */

/* Distance between two vectors' pending words, in bytes. */
#define ULN_PENDING_STRIDE 64

/* Distance between two objects' armed words, in bytes. */
#define ULN_ARMED_STRIDE 64

/* armed: no process sleeps on the object; the card does not interrupt. */
#define ULN_ARMED_NO 0

/* armed, stored by the driver: the owner sleeps. The event that it waits for interrupts. */
#define ULN_ARMED_YES 1

/* armed, stored by the card: the event that the owner waits for has occurred since. */
#define ULN_ARMED_FIRED 2

#endif /* _ULN_H */
