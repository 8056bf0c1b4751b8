//! Samsung's drives.

use super::{Family, rated, raw, unrated, unverified};

pub(super) const FAMILIES: &[Family] = &[
    Family {
        source: "Habr 242199",
        quoted_source: "",
        sizes: &[
            raw(&["SAMSUNG SSD 840 PRO"], 512, 512),
            raw(&["SAMSUNG SSD 850 PRO 128GB"], 128, 129),
        ],
    },
    Family {
        source: "Samsung, which gave no figure for the 840 and 840 EVO",
        quoted_source: "AnandTech, review of the 840 EVO",
        sizes: &[
            unrated(&["SSD 840 SERIES"], 120),
            unrated(&["SSD 840 SERIES"], 250),
            unrated(&["SSD 840 SERIES"], 500),
            unrated(&["SSD 840 EVO 120GB"], 120),
            unrated(&["SSD 840 EVO 250GB"], 250),
            unrated(&["SSD 840 EVO 500GB"], 500),
            unrated(&["SSD 840 EVO 750GB"], 750),
            unrated(&["SSD 840 EVO 1TB"], 1000),
        ],
    },
    Family {
        source: "Samsung, data sheet of the 850 EVO",
        quoted_source: "Hardware Slave, review of the 850 EVO",
        sizes: &[
            rated(
                &["SSD 850 EVO 120GB", "SSD 850 EVO M.2 120GB", "SSD 850 EVO MSATA 120GB"],
                120,
                75,
            ),
            rated(
                &["SSD 850 EVO 250GB", "SSD 850 EVO M.2 250GB", "SSD 850 EVO MSATA 250GB"],
                250,
                75,
            ),
            rated(
                &["SSD 850 EVO 500GB", "SSD 850 EVO M.2 500GB", "SSD 850 EVO MSATA 500GB"],
                500,
                150,
            ),
            rated(&["SSD 850 EVO 1TB", "SSD 850 EVO M.2 1TB", "SSD 850 EVO MSATA 1TB"], 1000, 150),
            unverified(
                &["SSD 850 EVO 2TB", "SSD 850 EVO M.2 2TB", "SSD 850 EVO MSATA 2TB"],
                2000,
                300,
            ),
        ],
    },
    Family {
        source: "Samsung, data sheet of the 850 PRO",
        quoted_source: "",
        sizes: &[
            unverified(&["SSD 850 PRO 256GB"], 256, 150),
            unverified(&["SSD 850 PRO 512GB"], 512, 300),
            unverified(&["SSD 850 PRO 1TB"], 1024, 300),
            unverified(&["SSD 850 PRO 2TB"], 2048, 450),
        ],
    },
    Family {
        source: "Samsung, data sheet of the 860 EVO",
        quoted_source: "Hardwareluxx, review of the 970 EVO Plus",
        sizes: &[
            rated(
                &["SSD 860 EVO 250GB", "SSD 860 EVO M.2 250GB", "SSD 860 EVO MSATA 250GB"],
                250,
                150,
            ),
            rated(
                &["SSD 860 EVO 500GB", "SSD 860 EVO M.2 500GB", "SSD 860 EVO MSATA 500GB"],
                500,
                300,
            ),
            unverified(
                &["SSD 860 EVO 1TB", "SSD 860 EVO M.2 1TB", "SSD 860 EVO MSATA 1TB"],
                1000,
                600,
            ),
            unverified(
                &["SSD 860 EVO 2TB", "SSD 860 EVO M.2 2TB", "SSD 860 EVO MSATA 2TB"],
                2000,
                1200,
            ),
            unverified(
                &["SSD 860 EVO 4TB", "SSD 860 EVO M.2 4TB", "SSD 860 EVO MSATA 4TB"],
                4000,
                2400,
            ),
        ],
    },
    Family {
        source: "Samsung, data sheet of the 860 PRO",
        quoted_source: "Basic Tutorials, review of the 860 series",
        sizes: &[
            unverified(&["SSD 860 PRO 256GB"], 256, 300),
            unverified(&["SSD 860 PRO 512GB"], 512, 600),
            unverified(&["SSD 860 PRO 1TB"], 1024, 1200),
            unverified(&["SSD 860 PRO 2TB"], 2048, 2400),
            rated(&["SSD 860 PRO 4TB"], 4096, 4800),
        ],
    },
    Family {
        source: "Samsung, data sheet of the 860 QVO",
        quoted_source: "Hardwareluxx, review of the 970 EVO Plus",
        sizes: &[
            rated(&["SSD 860 QVO 1TB"], 1000, 360),
            rated(&["SSD 860 QVO 2TB"], 2000, 720),
            rated(&["SSD 860 QVO 4TB"], 4000, 1440),
        ],
    },
    Family {
        source: "Samsung, data sheet of the 870 EVO",
        quoted_source: "PCWorld, March 2021, and Faceofit, October 2025",
        sizes: &[
            rated(&["SSD 870 EVO 250GB"], 250, 150),
            unverified(&["SSD 870 EVO 500GB"], 500, 300),
            rated(&["SSD 870 EVO 1TB"], 1000, 600),
            unverified(&["SSD 870 EVO 2TB"], 2000, 1200),
            unverified(&["SSD 870 EVO 4TB"], 4000, 2400),
        ],
    },
    Family {
        source: "Samsung, data sheet of the 870 QVO",
        quoted_source: "Tweakers, comparison of 40 SATA SSDs",
        sizes: &[
            rated(&["SSD 870 QVO 1TB"], 1000, 360),
            rated(&["SSD 870 QVO 2TB"], 2000, 720),
            rated(&["SSD 870 QVO 4TB"], 4000, 1440),
            unverified(&["SSD 870 QVO 8TB"], 8000, 2880),
        ],
    },
    Family {
        source: "Samsung, data sheet of the 950 PRO",
        quoted_source: "",
        sizes: &[
            unverified(&["SSD 950 PRO 256GB"], 256, 200),
            unverified(&["SSD 950 PRO 512GB"], 512, 400),
        ],
    },
    Family {
        source: "Samsung, data sheet of the 960 EVO",
        quoted_source: "Hardwareluxx, review of the 970 EVO Plus",
        sizes: &[
            rated(&["SSD 960 EVO 250GB"], 250, 100),
            rated(&["SSD 960 EVO 500GB"], 500, 200),
            rated(&["SSD 960 EVO 1TB"], 1000, 400),
        ],
    },
    Family {
        source: "Samsung, data sheet of the 960 PRO",
        quoted_source: "PC Perspective, Samsung Global SSD Summit 2016",
        sizes: &[
            unverified(&["SSD 960 PRO 512GB"], 512, 400),
            unverified(&["SSD 960 PRO 1TB"], 1024, 800),
            rated(&["SSD 960 PRO 2TB"], 2048, 1200),
        ],
    },
    Family {
        source: "Samsung, data sheet of the 970 EVO",
        quoted_source: "Techgage, April 2018",
        sizes: &[
            rated(&["SSD 970 EVO 250GB"], 250, 150),
            rated(&["SSD 970 EVO 500GB"], 500, 300),
            rated(&["SSD 970 EVO 1TB"], 1000, 600),
            rated(&["SSD 970 EVO 2TB"], 2000, 1200),
        ],
    },
    Family {
        source: "Samsung, data sheet of the 970 EVO Plus",
        quoted_source: "Hardwareluxx, review of the 970 EVO Plus",
        sizes: &[
            rated(&["SSD 970 EVO PLUS 250GB"], 250, 150),
            rated(&["SSD 970 EVO PLUS 500GB"], 500, 300),
            rated(&["SSD 970 EVO PLUS 1TB"], 1000, 600),
            rated(&["SSD 970 EVO PLUS 2TB"], 2000, 1200),
        ],
    },
    Family {
        source: "Samsung, data sheet of the 970 PRO",
        quoted_source: "HotHardware, review of the 970 PRO",
        sizes: &[
            unverified(&["SSD 970 PRO 512GB"], 512, 600),
            rated(&["SSD 970 PRO 1TB"], 1024, 1200),
        ],
    },
    Family {
        source: "Samsung, data sheet of the 980",
        quoted_source: "",
        sizes: &[
            unverified(&["SSD 980 250GB"], 250, 150),
            unverified(&["SSD 980 500GB"], 500, 300),
            unverified(&["SSD 980 1TB"], 1000, 600),
        ],
    },
    Family {
        source: "Samsung, data sheet of the 980 PRO",
        quoted_source: "",
        sizes: &[
            unverified(&["SSD 980 PRO 250GB"], 250, 150),
            unverified(&["SSD 980 PRO 500GB"], 500, 300),
            unverified(&["SSD 980 PRO 1TB"], 1000, 600),
            unverified(&["SSD 980 PRO 2TB"], 2000, 1200),
        ],
    },
    Family {
        source: "Samsung, data sheet of the 990 PRO",
        quoted_source: "Faceofit, October 2025",
        sizes: &[
            rated(&["SSD 990 PRO 1TB"], 1000, 600),
            unverified(&["SSD 990 PRO 2TB"], 2000, 1200),
            unverified(&["SSD 990 PRO 4TB"], 4000, 2400),
        ],
    },
    Family {
        source: "Samsung, product brief of the PM883",
        quoted_source: "",
        sizes: &[
            unverified(&["MZ7LH240"], 240, 341),
            unverified(&["MZ7LH480"], 480, 683),
            unverified(&["MZ7LH960"], 960, 1366),
            unverified(&["MZ7LH1T9"], 1920, 2733),
            unverified(&["MZ7LH3T8"], 3840, 5466),
            unverified(&["MZ7LH7T6"], 7680, 10932),
        ],
    },
    Family {
        source: "Samsung, product brief of the SM883",
        quoted_source: "",
        sizes: &[
            unverified(&["MZ7KH240"], 240, 1314),
            unverified(&["MZ7KH480"], 480, 2628),
            unverified(&["MZ7KH960"], 960, 5256),
            unverified(&["MZ7KH1T9"], 1920, 10512),
            unverified(&["MZ7KH3T8"], 3840, 21024),
        ],
    },
    Family {
        source: "Samsung, product brief of the PM983 (1.3 drive writes a day for 3 years)",
        quoted_source: "Chia wiki, SSD Endurance",
        sizes: &[
            rated(&["MZQLB960"], 960, 1366),
            unverified(&["MZQLB1T9"], 1920, 2733),
            unverified(&["MZQLB3T8"], 3840, 5466),
            unverified(&["MZQLB7T6"], 7680, 10932),
        ],
    },
];
