/**
 * Operators on one operand, element by element: one row each in {@link dev.octet.trainer.op.unary.UnaryFunction}, which has the function and its
 * derivative; the twins are shared.
 */
@NullMarked
package dev.octet.trainer.op.unary;

import org.jspecify.annotations.NullMarked;
