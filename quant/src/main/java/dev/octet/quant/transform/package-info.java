/**
 * Transforms of weights that leave a model's output as it is and make it lose less when it is quantised: SmoothQuant, AWQ, rotations. Only
 * arrays here; which layers they join is the converter's business.
 */
@NullMarked
package dev.octet.quant.transform;

import org.jspecify.annotations.NullMarked;
