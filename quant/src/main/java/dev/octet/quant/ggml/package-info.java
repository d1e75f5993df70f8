/** The blocks of ggml's types, which GGUF files consist of: to floats, and for some of them from floats. Per block, no graph, no file. */
@NullMarked
package dev.octet.quant.ggml;

import org.jspecify.annotations.NullMarked;
