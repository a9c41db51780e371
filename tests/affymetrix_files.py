"""Writers of small CEL and CDF files, to the layout that Affymetrix published for each of them.

Written from the published descriptions ("Affymetrix Data File Formats": CEL file, CDF file), independently
of the readers: nothing here is imported from the package.
"""

import struct

import numpy as np

COMPLEMENT = {"A": "T", "T": "A", "C": "G", "G": "C"}


def dat_header(chip_type, n_cols):
    """The scanner's line, in which the chip type ends in .1sq between control characters."""
    return (
        f"[0..46101]  chip:CLS={n_cols} RWS={n_cols} XIN=3  YIN=3  VE=17  2.0 08/09/02 11:25:36 \x14  \x14 "
        f"{chip_type}.1sq \x14  \x14  \x14  \x14  \x14  \x14  \x14  \x14  \x14 6"
    )


def header_lines(n_rows, n_cols, chip_type):
    corners = ["GridCornerUL=5 5", "GridCornerUR=9 5", "GridCornerLR=9 9", "GridCornerLL=5 9"]
    sizes = [f"Cols={n_cols}", f"Rows={n_rows}", f"TotalX={n_cols}", f"TotalY={n_rows}"]
    flags = ["OffsetX=0", "OffsetY=0", "Axis-invertX=0", "AxisInvertY=0", "swapXY=0"]
    ends = [
        "Algorithm=Percentile",
        "AlgorithmParameters=Percentile:75;CellMargin:2;OutlierHigh:1.500",
    ]
    return [*sizes, *flags, *corners, f"DatHeader={dat_header(chip_type, n_cols)}", *ends]


def cel_3(intensity, n_rows, n_cols, *, chip_type="Test3", masked=(), outliers=(), order=None):
    """Version 3: text in sections. `masked` and `outliers` are pairs (x, y)."""
    lines = ["[CEL]", "Version=3", "", "[HEADER]", *header_lines(n_rows, n_cols, chip_type), ""]
    lines += [
        "[INTENSITY]",
        f"NumberCells={n_rows * n_cols}",
        "CellHeader=X\tY\tMEAN\tSTDV\tNPIXELS",
    ]
    for cell in range(n_rows * n_cols) if order is None else order:
        y, x = divmod(cell, n_cols)
        lines.append(f"{x:3d}\t{y:3d}\t{float(intensity[cell])!r}\t{12.5 + x:.1f}\t{20 + y:3d}")
    for title, points in (("MASKS", masked), ("OUTLIERS", outliers)):
        lines += ["", f"[{title}]", f"NumberCells={len(points)}", "CellHeader=X\tY"]
        lines += [f"{x}\t{y}" for x, y in points]
    lines += ["", "[MODIFIED]", "NumberCells=0", "CellHeader=X\tY\tORIGMEAN", ""]
    return "\r\n".join(lines).encode("latin-1")


def cel_4(intensity, n_rows, n_cols, *, chip_type="Test3", masked=(), outliers=(), n_sub_grids=1):
    """Version 4: little-endian binary; lengths before texts, counts before tables."""

    def text(value):
        data = value.encode("latin-1")
        return struct.pack("<i", len(data)) + data

    head = struct.pack("<5i", 64, 4, n_cols, n_rows, n_rows * n_cols)
    head += text("\n".join(header_lines(n_rows, n_cols, chip_type)) + "\n")
    head += text("Percentile") + text("Percentile:75;CellMargin:2;OutlierHigh:1.500")
    head += struct.pack("<iIIi", 2, len(outliers), len(masked), n_sub_grids)
    cells = b"".join(
        struct.pack("<ffh", intensity[cell], 12.5 + cell % n_cols, 20 + cell // n_cols)
        for cell in range(n_rows * n_cols)
    )
    points = b"".join(struct.pack("<hh", x, y) for x, y in [*masked, *outliers])
    grid = struct.pack("<2i8f4i", 0, 0, *range(8), 0, 0, n_cols, n_rows)
    return head + cells + points + n_sub_grids * grid


def wide(value):
    """Text of the Command Console: its length in characters, and two bytes for each, high byte first."""
    return struct.pack(">i", len(value)) + value.encode("utf-16-be")


def narrow(value):
    """Bytes after their length."""
    data = value if isinstance(value, bytes) else value.encode("ascii")
    return struct.pack(">i", len(data)) + data


def parameters(values):
    """Count, then name, value and type: numbers in 16 bytes, of which the first four count."""
    data = struct.pack(">i", len(values))
    for name, value in values.items():
        if isinstance(value, str):
            data += wide(name) + narrow(value.encode("utf-16-be")) + wide("text/plain")
        elif isinstance(value, bytes):
            data += wide(name) + narrow(value) + wide("text/ascii")
        else:
            kind, form = ("float", ">f") if isinstance(value, float) else ("integer-32", ">i")
            packed = struct.pack(form, value).ljust(16, b"\0")
            data += wide(name) + narrow(packed) + wide(f"text/x-calvin-{kind}")
    return data


def data_header(kind, values, parents=()):
    """Type of the data, identifier, date, locale, parameters, and the headers of the files it was made from."""
    head = narrow(kind) + narrow("0000065535-1147280233-0000005844") + wide("2006-05-10T10:57:13Z")
    head += wide("en-US") + parameters(values)
    return head + struct.pack(">i", len(parents)) + b"".join(parents)


def command_console(kind, values, tables, *, parents=(), n_groups=1):
    """A generic file with one data group; `tables` maps names to (columns (name, type, form), rows)."""
    head = data_header(kind, values, parents)
    group_place = 10 + len(head)
    name = wide("Default Group")
    place = group_place + 12 + len(name)
    data = struct.pack(">BBiI", 59, 1, n_groups, group_place) + head
    data += struct.pack(">IIi", 0, place, len(tables)) + name
    for title, (columns, rows) in tables.items():
        about = wide(title) + parameters({}) + struct.pack(">I", len(columns))
        for column, number, form in columns:
            about += wide(column) + struct.pack(">bi", number, struct.calcsize(">" + form))
        about += struct.pack(">I", len(rows))
        form = ">" + "".join(form for _, _, form in columns)
        cells = b"".join(struct.pack(form, *row) for row in rows)
        start = place + 8 + len(about)
        place = start + len(cells)
        data += struct.pack(">II", start, place) + about + cells
    return data


def cel_1(intensity, n_rows, n_cols, *, chip_type="Test3", masked=(), outliers=(), **options):
    """Command Console: the generic format with five data sets."""
    cells = range(n_rows * n_cols)
    points = [("X", 2, "h"), ("Y", 2, "h")]
    tables = {
        "Intensity": ([("Intensity", 6, "f")], [(intensity[cell],) for cell in cells]),
        "StdDev": ([("StdDev", 6, "f")], [(12.5 + cell % n_cols,) for cell in cells]),
        "Pixel": ([("Pixel", 2, "h")], [(20 + cell // n_cols,) for cell in cells]),
        "Outlier": (points, outliers),
        "Mask": (points, masked),
    }
    values = {
        "affymetrix-array-type": chip_type,
        "affymetrix-algorithm-name": "Percentile",
        "affymetrix-algorithm-param-OutlierHigh": 1.5,
        "program-company": b"Affymetrix",
        "affymetrix-cel-cols": n_cols,
        "affymetrix-cel-rows": n_rows,
    }
    scan = {
        "affymetrix-dat-header": dat_header(chip_type, n_cols),
        "affymetrix-array-type": "other",
    }
    grandparent = data_header("affymetrix-calvin-array", {"affymetrix-array-id": "17"})
    parent = data_header("affymetrix-calvin-scan-acquisition", scan, [grandparent])
    values |= options.pop("values", {})
    tables |= options.pop("tables", {})
    kind = options.pop("kind", "affymetrix-calvin-intensity")
    return command_console(kind, values, tables, parents=[parent, grandparent], **options)


def set_cells(sets, n_cols):
    """For every set its cells (x, y, atom, probe base, target base): perfect match, then mismatch below it."""
    for name, pm_cells in sets.items():
        rows = []
        for atom, cell in enumerate(pm_cells):
            target = "ACGT"[(cell + atom) % 4]
            y, x = divmod(int(cell), n_cols)
            rows.append((x, y, atom, COMPLEMENT[target], target))
            rows.append((x, y + 1, atom, target, target))
        yield name, rows


def cdf_text(sets, n_rows, n_cols, *, chip_type="Test3"):
    """Text CDF (GC3.0) with one QC unit; `sets` maps names to the perfect-match cells."""
    lines = ["[CDF]", "Version=GC3.0", "", "[Chip]", f"Name={chip_type}", f"Rows={n_rows}"]
    lines += [f"Cols={n_cols}", f"NumberOfUnits={len(sets)}", f"MaxUnit={len(sets)}"]
    lines += ["NumQCUnits=1", "ChipReference=", "", "[QC1]", "Type=6", "NumberCells=2"]
    lines += ["CellHeader=X\tY\tPROBE\tPLEN\tATOM\tINDEX\tMATCH\tBG"]
    lines += ["Cell1=0\t0\tN\t25\t0\t0\t1\t0", "Cell2=1\t0\tN\t25\t1\t1\t0\t0"]
    columns = "X Y PROBE FEAT QUAL EXPOS POS CBASE PBASE TBASE ATOM INDEX CODONIND CODON REGIONTYPE REGION"
    for k, (name, rows) in enumerate(set_cells(sets, n_cols), 1):
        n_atoms = len(rows) // 2
        lines += ["", f"[Unit{k}]", "Name=NONE", "Direction=2", f"NumAtoms={n_atoms}"]
        lines += [f"NumCells={len(rows)}", f"UnitNumber={k}", "UnitType=3", "NumberBlocks=1"]
        lines += ["", f"[Unit{k}_Block1]", f"Name={name}", "BlockNumber=1", f"NumAtoms={n_atoms}"]
        lines += [f"NumCells={len(rows)}", "StartPosition=0", f"StopPosition={n_atoms - 1}"]
        lines += ["CellHeader=" + columns.replace(" ", "\t")]
        for c, (x, y, atom, probe, target) in enumerate(rows, 1):
            cell = f"{x}\t{y}\tN\tcontrol\t{name}\t{atom}\t13\t{target}\t{probe}\t{target}\t{atom}"
            lines.append(f"Cell{c}={cell}\t{y * n_cols + x}\t-1\t-1\t99\t ")
    return "\r\n".join([*lines, ""]).encode("latin-1")


def cdf_xda(sets, n_rows, n_cols):
    """Binary CDF (XDA, version 1) with one QC unit."""
    data = struct.pack("<iiHHiii", 67, 1, n_cols, n_rows, len(sets), 1, 0)
    data += b"".join(name.encode("latin-1").ljust(64, b"\0") for name in sets)
    qc = struct.pack("<Hi", 6, 2) + struct.pack("<HHBBB", 0, 0, 25, 1, 0)
    qc += struct.pack("<HHBBB", 1, 0, 25, 0, 0)
    units = []
    for k, (name, rows) in enumerate(set_cells(sets, n_cols), 1):
        n_atoms = len(rows) // 2
        unit = struct.pack("<HBiiiiB", 1, 2, n_atoms, 1, len(rows), k, 2)
        unit += struct.pack("<iiBBii", n_atoms, len(rows), 2, 2, 0, n_atoms - 1)
        unit += name.encode("latin-1").ljust(64, b"\0")
        for x, y, atom, probe, target in rows:
            unit += struct.pack("<iHHicc", atom, x, y, atom, probe.encode(), target.encode())
        units.append(unit)
    start = len(data) + 4 * (1 + len(sets))
    ends = start + np.cumsum([len(qc), *map(len, units)])
    places = [start, *ends[:-1].tolist()]
    return data + struct.pack(f"<{len(places)}i", *places) + qc + b"".join(units)
