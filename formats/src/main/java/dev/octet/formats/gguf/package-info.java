/**
 * GGUF files of ggml and llama.cpp: key-value metadata, tensors in blocks of ggml's types. What the blocks mean is known to {@code quant.ggml},
 * what the names mean to {@code converter.gguf}.
 */
@NullMarked
package dev.octet.formats.gguf;

import org.jspecify.annotations.NullMarked;
