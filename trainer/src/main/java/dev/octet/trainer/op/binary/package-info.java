/**
 * Operators on two operands, element by element, with broadcasting: one file for each, which says its function and derivatives; the
 * twins walk the operands and are shared.
 */
@NullMarked
package dev.octet.trainer.op.binary;

import org.jspecify.annotations.NullMarked;
