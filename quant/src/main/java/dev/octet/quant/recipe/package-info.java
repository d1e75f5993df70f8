/**
 * Recipes: named, immutable statements of which operand of which product takes which number type, at which granularity, with scales from
 * where; one family for conversion and training. Comes in: a name, for training the fields a user wrote; goes out: constants and records.
 * Doers (layouts, the converter's plan, the trainer) decide from the {@link dev.octet.quant.recipe.OperandSpec} of each operand.
 */
@NullMarked
package dev.octet.quant.recipe;

import org.jspecify.annotations.NullMarked;
