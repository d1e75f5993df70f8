/** Devices that run programs, their memory, and loaded programs. */
@NullMarked
package dev.octet.trainer.device;

import org.jspecify.annotations.NullMarked;
