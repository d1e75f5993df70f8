/** Which number type each operator computes in: autocast lists, FP8 recipes, loss scaling. Says; {@code trainer.autodiff} does. */
@NullMarked
package dev.octet.trainer.precision;

import org.jspecify.annotations.NullMarked;
