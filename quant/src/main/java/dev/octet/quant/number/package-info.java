/**
 * The small number formats as plain arithmetic on single values: decodes a code to a {@code float} and rounds a {@code float} to a code.
 * Written for readability and checking; {@code dev.octet.quant.cast} has the fast twins, which must agree with this room bit for bit.
 */
@NullMarked
package dev.octet.quant.number;

import org.jspecify.annotations.NullMarked;
