package dev.octet.converter.runtime;

import static org.junit.jupiter.api.Assertions.assertDoesNotThrow;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.octet.formats.error.UnavailableException;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Test;

@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class OnnxRuntimeTest {
    @Test
    void a_class_path_without_it_is_told_with_the_archive_that_has_it() {
        UnavailableException e = assertThrows(
                UnavailableException.class, () -> OnnxRuntime.require(ClassLoader.getPlatformClassLoader()));
        assertTrue(e.what().contains("ONNX Runtime, which is not part of this Octet"), e.what());
        assertTrue(e.where().contains("com.microsoft.onnxruntime:onnxruntime"), e.where());
        assertTrue(e.fix().contains("octet-VERSION-linux-x86_64.tar.gz"), e.fix());
    }

    @Test
    void where_it_is_nothing_is_said() {
        assertDoesNotThrow(() -> OnnxRuntime.require());
    }
}
