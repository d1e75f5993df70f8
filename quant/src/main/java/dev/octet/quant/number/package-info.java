/**
 * The small number formats as plain arithmetic: what each code means and which code a float rounds to, one value at a time.
 * What comes in: a {@code float} or a code; what goes out: the other. Everything here is written to be read and checked; speed
 * is the matter of {@code dev.octet.quant.cast}, whose twins must agree with this room bit for bit.
 */
@NullMarked
package dev.octet.quant.number;

import org.jspecify.annotations.NullMarked;
