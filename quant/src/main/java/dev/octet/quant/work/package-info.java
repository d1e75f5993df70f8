/** Sharing work out among threads. Knows no numbers; used by whatever quantises large tensors, exported to nobody. */
@NullMarked
package dev.octet.quant.work;

import org.jspecify.annotations.NullMarked;
