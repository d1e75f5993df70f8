/**
 * How quantised weights lie in a safetensors checkpoint for each consumer: names, shapes, number types and direction of the scales, and
 * what the configuration next to them says. Comes in: a tensor's name and shape and how it is quantised; goes out: the tensors that stand
 * for it in the file, and the other way round. {@link dev.octet.quant.layout.Layouts} lists all. One more is one more class and its line there.
 *
 * <p>Nothing here touches the bytes of weights: see {@code dev.octet.converter.checkpoint}.
 */
@NullMarked
package dev.octet.quant.layout;

import org.jspecify.annotations.NullMarked;
