/**
 * Recipes: named, immutable statements of which operand of which GEMM takes which number format, at which granularity, with
 * scales that come from where. Comes in: a name; goes out: constants. Doers (the converter's plan, the trainer) read them.
 */
@NullMarked
package dev.octet.quant.recipe;

import org.jspecify.annotations.NullMarked;
