package dev.octet.cli;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;

import com.tngtech.archunit.core.domain.JavaClass;
import com.tngtech.archunit.core.domain.JavaModifier;
import com.tngtech.archunit.core.importer.ClassFileImporter;
import com.tngtech.archunit.core.importer.ImportOption;
import java.io.IOException;
import java.lang.reflect.Constructor;
import java.lang.reflect.Executable;
import java.lang.reflect.Field;
import java.lang.reflect.Member;
import java.lang.reflect.Method;
import java.lang.reflect.Modifier;
import java.lang.reflect.RecordComponent;
import java.lang.reflect.Type;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Comparator;
import java.util.List;
import java.util.Set;
import java.util.TreeSet;
import java.util.regex.Pattern;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.parallel.Execution;
import org.junit.jupiter.api.parallel.ExecutionMode;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;

/**
 * What each module exports to everyone, compared with the committed lists in {@code testdata/api}: public types, and their public and
 * protected members. {@code -Doctet.api=write} writes the lists anew.
 */
@Execution(ExecutionMode.CONCURRENT)
@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class PublicApiTest {
    private static final Path TESTDATA = Path.of(System.getProperty("octet.testdata"));
    private static final Path ROOT = TESTDATA.resolveSibling("");
    private static final boolean WRITE = "write".equals(System.getProperty("octet.api"));

    /** An export to all; one to named modules continues in the next line. */
    private static final Pattern EXPORT = Pattern.compile("^\\s*exports ([\\w.]+);", Pattern.MULTILINE);

    /** Package of a type in the text of a signature. */
    private static final Pattern PACKAGE = Pattern.compile("\\b(?:[a-z]\\w*\\.)+(?=[A-Z])");

    /** What every enum and record has. */
    private static final Set<String> GIVEN = Set.of("values", "valueOf", "equals", "hashCode", "toString");

    static List<String> modules() throws IOException {
        try (Stream<Path> folders = Files.list(ROOT)) {
            return folders.filter(f -> Files.exists(descriptor(f)))
                    .map(f -> String.valueOf(f.getFileName()))
                    .sorted()
                    .toList();
        }
    }

    private static Path descriptor(Path module) {
        return module.resolve("src/main/java/module-info.java");
    }

    @ParameterizedTest
    @MethodSource("modules")
    void a_module_exports_what_its_list_says(String module) throws IOException {
        List<String> found = types(module).flatMap(PublicApiTest::lines).toList();
        assertFalse(found.isEmpty(), module);
        Path list = TESTDATA.resolve("api").resolve(module + ".txt");
        if (WRITE) {
            Files.createDirectories(list.getParent());
            Files.write(list, found);
        }
        assertEquals(
                String.join("\n", Files.readAllLines(list)),
                String.join("\n", found),
                "the public surface of " + module
                        + " has changed; if that is meant, run this test with -Doctet.api=write and commit " + list);
    }

    private static Stream<Class<?>> types(String module) throws IOException {
        List<String> packages = EXPORT.matcher(Files.readString(descriptor(ROOT.resolve(module))))
                .results()
                .map(m -> m.group(1))
                .toList();
        return new ClassFileImporter()
                        .withImportOption(ImportOption.Predefined.DO_NOT_INCLUDE_TESTS)
                        .importPackages("dev.octet." + module)
                        .stream()
                        .filter(c -> packages.contains(c.getPackageName()))
                        .filter(PublicApiTest::isPublic)
                        .sorted(Comparator.comparing(JavaClass::getName))
                        .map(JavaClass::reflect);
    }

    private static boolean isPublic(JavaClass c) {
        return c.getModifiers().contains(JavaModifier.PUBLIC)
                && c.getEnclosingClass().map(PublicApiTest::isPublic).orElse(true);
    }

    /** A line for the type and an indented one for each member, those of a record's components and of all enums left out. */
    private static Stream<String> lines(Class<?> c) {
        Set<String> members = new TreeSet<>();
        for (Field f : c.getDeclaredFields()) {
            if (isVisible(f) && !f.isEnumConstant()) {
                members.add(modifiers(f) + f.getName() + ": " + text(f.getGenericType()));
            }
        }
        for (Constructor<?> k : c.getDeclaredConstructors()) {
            if (isVisible(k) && !isCanonical(c, k)) {
                members.add("new(" + parameters(k) + ")");
            }
        }
        for (Method m : c.getDeclaredMethods()) {
            if (isVisible(m) && !isGiven(c, m)) {
                members.add(modifiers(m) + m.getName() + "(" + parameters(m) + "): " + text(m.getGenericReturnType()));
            }
        }
        return Stream.concat(Stream.of(header(c)), members.stream().map(m -> "    " + m));
    }

    private static String header(Class<?> c) {
        List<String> supertypes = new ArrayList<>();
        if (c.getGenericSuperclass() != null
                && !c.isRecord()
                && !c.isEnum()
                && !c.getSuperclass().equals(Object.class)) {
            supertypes.add(text(c.getGenericSuperclass()));
        }
        Arrays.stream(c.getGenericInterfaces()).map(PublicApiTest::text).forEach(supertypes::add);
        return c.getName().replace('$', '.')
                + " "
                + kind(c)
                + (supertypes.isEmpty() ? "" : " : " + String.join(", ", supertypes));
    }

    private static String kind(Class<?> c) {
        if (c.isRecord()) {
            return "record("
                    + Arrays.stream(c.getRecordComponents())
                            .map(r -> r.getName() + ": " + text(r.getGenericType()))
                            .collect(Collectors.joining(", "))
                    + ")";
        }
        if (c.isEnum()) {
            return "enum("
                    + Arrays.stream(c.getFields())
                            .filter(Field::isEnumConstant)
                            .map(Field::getName)
                            .collect(Collectors.joining(", "))
                    + ")";
        }
        String kind = c.isAnnotation() ? "annotation" : c.isInterface() ? "interface" : "class";
        return c.isSealed() ? "sealed " + kind : kind;
    }

    private static boolean isVisible(Member m) {
        boolean open = Modifier.isProtected(m.getModifiers())
                && !Modifier.isFinal(m.getDeclaringClass().getModifiers());
        return !m.isSynthetic() && (Modifier.isPublic(m.getModifiers()) || open);
    }

    private static boolean isCanonical(Class<?> c, Constructor<?> k) {
        return c.isRecord()
                && Arrays.equals(
                        k.getParameterTypes(),
                        Arrays.stream(c.getRecordComponents())
                                .map(RecordComponent::getType)
                                .toArray());
    }

    private static boolean isGiven(Class<?> c, Method m) {
        boolean accessor = c.isRecord()
                && m.getParameterCount() == 0
                && Arrays.stream(c.getRecordComponents())
                        .anyMatch(r -> r.getName().equals(m.getName()));
        return accessor || GIVEN.contains(m.getName());
    }

    private static String modifiers(Member m) {
        return (Modifier.isStatic(m.getModifiers()) ? "static " : "")
                + (Modifier.isAbstract(m.getModifiers()) ? "abstract " : "");
    }

    private static String parameters(Executable e) {
        return Arrays.stream(e.getGenericParameterTypes())
                .map(PublicApiTest::text)
                .collect(Collectors.joining(", "));
    }

    private static String text(Type type) {
        return PACKAGE.matcher(type.getTypeName()).replaceAll("").replace('$', '.');
    }
}
