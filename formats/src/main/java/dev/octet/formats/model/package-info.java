/**
 * A model as every format yields it: tensors, perhaps a graph, free metadata. Formats implement {@link ModelFormat}; the root
 * class {@code ModelFile} lists them.
 */
@NullMarked
package dev.octet.formats.model;

import org.jspecify.annotations.NullMarked;
