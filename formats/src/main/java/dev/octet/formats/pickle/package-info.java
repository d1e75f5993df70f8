/**
 * Pickles without Python: the opcodes that build values are carried out, nothing is called. In: bytes. Out: a {@link dev.octet.formats.pickle.PickleValue}, in
 * which an object is its class's name, arguments and state. Classes and functions that {@link dev.octet.formats.pickle.Constructors} does not list are refused
 * by name. The rooms of formats that use pickles say what an object means.
 */
@NullMarked
package dev.octet.formats.pickle;

import org.jspecify.annotations.NullMarked;
