/**
 * Operators on two operands, element by element, with broadcasting: one row each in {@link dev.octet.trainer.op.binary.BinaryFunction}, which has
 * the function and its derivatives; the twins walk the operands and are shared.
 */
@NullMarked
package dev.octet.trainer.op.binary;

import org.jspecify.annotations.NullMarked;
