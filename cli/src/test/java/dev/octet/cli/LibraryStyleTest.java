package dev.octet.cli;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.tngtech.archunit.core.domain.JavaClass;
import com.tngtech.archunit.core.domain.JavaModifier;
import com.tngtech.archunit.core.importer.ClassFileImporter;
import com.tngtech.archunit.core.importer.ImportOption;
import java.lang.reflect.Modifier;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.stream.Collectors;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.parallel.Execution;
import org.junit.jupiter.api.parallel.ExecutionMode;

/** What a program that uses the library meets in all of its modules alike. */
@Execution(ExecutionMode.CONCURRENT)
@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class LibraryStyleTest {
    /** Options without defaults: a program is of one kind or another; a GPU's come from system properties. */
    private static final Set<String> WITHOUT_DEFAULTS = Set.of("ProgramOptions", "GpuOptions");

    private static List<JavaClass> publicTypes() {
        return new ClassFileImporter()
                .withImportOption(ImportOption.Predefined.DO_NOT_INCLUDE_TESTS).importPackages("dev.octet").stream()
                        .filter(c -> c.getModifiers().contains(JavaModifier.PUBLIC))
                        .filter(c -> c.getEnclosingClass().isEmpty()
                                && !c.getPackageName().startsWith("dev.octet.bench"))
                        .toList();
    }

    @Test
    void no_two_public_types_have_one_name() {
        Map<String, List<String>> byName = new TreeMap<>(publicTypes().stream()
                .collect(Collectors.groupingBy(
                        JavaClass::getSimpleName, Collectors.mapping(JavaClass::getName, Collectors.toList()))));
        byName.values().removeIf(types -> types.size() == 1);
        byName.remove("package-info");
        assertEquals(Map.of(), byName);
    }

    @Test
    void options_begin_with_defaults_and_are_changed_by_with() {
        List<Class<?>> options = publicTypes().stream()
                .filter(c -> c.getSimpleName().endsWith("Options") && !WITHOUT_DEFAULTS.contains(c.getSimpleName()))
                .<Class<?>>map(JavaClass::reflect)
                .toList();
        assertTrue(options.size() >= 9, options.toString());
        for (Class<?> c : options) {
            assertTrue(
                    Arrays.stream(c.getDeclaredMethods())
                            .anyMatch(m -> m.getName().equals("defaults")
                                    && Modifier.isStatic(m.getModifiers())
                                    && m.getReturnType().equals(c)),
                    c + " has no defaults()");
            assertTrue(
                    Arrays.stream(c.getDeclaredMethods())
                            .anyMatch(m -> m.getName().startsWith("with")
                                    && m.getReturnType().equals(c)),
                    c + " has no method with...");
            assertTrue(
                    Arrays.stream(c.getDeclaredFields())
                            .noneMatch(f -> Modifier.isPublic(f.getModifiers())
                                    && f.getType().equals(c)),
                    c + " has its defaults in a constant");
        }
    }
}
