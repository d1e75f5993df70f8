/**
 * GGUF files to Hugging Face folders and back: names, order of rows, keys, tokenizers. In: a GGUF file, or a checkpoint in any layout. Out: the
 * other. What a block means is known to {@code quant.ggml}.
 */
@NullMarked
package dev.octet.converter.gguf;

import org.jspecify.annotations.NullMarked;
