/**
 * NumPy's files: {@code .npy} (one array) and {@code .npz} (a zip of arrays), for calibration and evaluation data. In: bytes. Out: tensors
 * of Octet's element types, as a whole or in slices along the first axis; a writer for both. Faults are {@link
 * dev.octet.formats.error.InvalidDataException}, because these files are data, not models.
 *
 * <p>Source: the format's description, numpy/lib/format.py (NEP 1), versions 1.0, 2.0 and 3.0.
 */
@NullMarked
package dev.octet.formats.npy;

import org.jspecify.annotations.NullMarked;
