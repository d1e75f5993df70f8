/** Runs programs in F64 on the operators' reference twins: slow, used to check other devices. */
@NullMarked
package dev.octet.trainer.device.reference;

import org.jspecify.annotations.NullMarked;
