/**
 * What adapters do to weights. In: F32 rows of a weight and the tensors of adapters (PEFT's). Out: F32 rows of the merged weight. The verb
 * {@code octet merge} and training that is aware of the merge both call it, so both see the same bits.
 */
@NullMarked
package dev.octet.quant.merge;

import org.jspecify.annotations.NullMarked;
