/** The entry to conversion: one public call per thing a user does. */
@NullMarked
package dev.octet.converter;

import org.jspecify.annotations.NullMarked;
