/** Programs in F64 by the reference twins: slow, to check other devices with. */
@NullMarked
package dev.octet.trainer.device.reference;

import org.jspecify.annotations.NullMarked;
