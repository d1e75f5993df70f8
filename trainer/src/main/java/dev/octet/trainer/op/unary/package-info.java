/**
 * Operators on one operand, element by element: one file for each, which says its function and derivative; the twins are shared.
 */
@NullMarked
package dev.octet.trainer.op.unary;

import org.jspecify.annotations.NullMarked;
