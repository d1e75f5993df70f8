package dev.octet.formats.file;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.util.Optional;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Test;

@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class PlatformTest {
    @Test
    void what_java_calls_systems_and_processors_is_known() {
        assertEquals(Optional.of(Platform.LINUX_X86_64), Platform.of("Linux", "amd64"));
        assertEquals(Optional.of(Platform.LINUX_ARM64), Platform.of("Linux", "aarch64"));
        assertEquals(Optional.of(Platform.MACOS_ARM64), Platform.of("Mac OS X", "aarch64"));
        assertEquals(Optional.of(Platform.MACOS_X86_64), Platform.of("Mac OS X", "x86_64"));
        assertEquals(Optional.of(Platform.WINDOWS_X86_64), Platform.of("Windows 11", "amd64"));
        assertEquals(Optional.of(Platform.WINDOWS_X86_64), Platform.of("Windows Server 2025", "amd64"));
    }

    @Test
    void other_platforms_are_none_of_these() {
        assertEquals(Optional.empty(), Platform.of("Linux", "riscv64"));
        assertEquals(Optional.empty(), Platform.of("SunOS", "amd64"));
        assertEquals(Optional.empty(), Platform.of("Windows 11", "aarch64"));
    }
}
