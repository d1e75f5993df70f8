/** HostCopy: a value leaves for memory of the host and comes back, while other steps compute. */
@NullMarked
package dev.octet.trainer.op.host;

import org.jspecify.annotations.NullMarked;
